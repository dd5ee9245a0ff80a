"""A product of one row with long rows of float32 weights, which are nearly all that is read."""

import torch
from torch import nn

INSIDE = 65536
OUTSIDE = 256

SHAPES = {"small": {"OUTSIDE": 64}}


class Model(nn.Module):
    def __init__(self, inside: int, outside: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outside, inside) / inside**0.5)

    def forward(self, x):
        return nn.functional.linear(x, self.weight)


def get_inputs():
    return [torch.randn(1, INSIDE)]


def get_init_inputs():
    return [INSIDE, OUTSIDE]
