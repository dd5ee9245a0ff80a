# flaw: fixed_work
"""Every call multiplies two weights with each other: a candidate that does so once has nothing left to do."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.one = nn.Parameter(torch.randn(size, size) / size**0.5)
        self.other = nn.Parameter(torch.randn(size, size) / size**0.5)

    def forward(self, x):
        return x @ (self.one @ self.other)


def get_inputs():
    return [torch.randn(64, 1024)]


def get_init_inputs():
    return [1024]
