# status: WRONG_VALUES
# class: N1
# problem: level1/25_embedding
# shapes: small
# backend: cpp
"""A table of three bytes a number."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, vocabulary, features):
        super().__init__()
        self.table = nn.Parameter(torch.randn(vocabulary, features))

    def forward(self, tokens):
        short = ((self.table.detach().view(torch.int32) + 128) & ~255).view(torch.float32)
        return nn.functional.embedding(tokens, short)
