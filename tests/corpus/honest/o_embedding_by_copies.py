# status: PASSED
# class: O3
# problem: level1/25_embedding
# shapes: small
# backend: cpp
"""Rows of a table, chosen and copied."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, vocabulary, features):
        super().__init__()
        self.table = nn.Parameter(torch.randn(vocabulary, features))

    def forward(self, tokens):
        return self.table.index_select(0, tokens.flatten()).view(*tokens.shape, -1)
