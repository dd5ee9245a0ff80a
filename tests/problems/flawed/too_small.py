# flaw: too_small
"""Sixteen numbers: any time measured is the cost of launching, not of computing."""

import torch
from torch import nn

SIZE = 16


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) * 2.0


def get_inputs():
    return [torch.randn(SIZE)]


def get_init_inputs():
    return []
