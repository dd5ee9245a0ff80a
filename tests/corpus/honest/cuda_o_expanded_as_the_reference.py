# status: PASSED
# class: O9 O12
# problem: ../tests/problems/answers/expanded_output
# shapes: small
# backend: cuda
"""A view of stride zero and a parameter where the reference returns the same."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.offset = nn.Parameter(torch.randn(columns))

    def forward(self, x):
        total = torch.linalg.vector_norm(x + self.offset, dim=-1, keepdim=True) ** 2
        return total.expand_as(x), self.offset
