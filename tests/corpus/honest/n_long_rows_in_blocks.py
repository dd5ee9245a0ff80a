# status: PASSED
# class: N1
# problem: unusual/long_rows
# shapes: small
# backend: cpp
"""Sums of blocks, added one after another."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outside, inside) / inside**0.5)

    def forward(self, x):
        y = x.new_zeros(len(x), len(self.weight))
        for one, weight in zip(x.split(64, 1), self.weight.split(64, 1), strict=True):
            y += one @ weight.T
        return y
