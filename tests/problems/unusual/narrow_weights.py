"""A product of a few rows with bfloat16 weights, which are nearly all that is read."""

import torch
from torch import nn

ROWS = 4
INSIDE = 4096
OUTSIDE = 4096

SHAPES = {"small": {"INSIDE": 2048, "OUTSIDE": 2048}}


class Model(nn.Module):
    def __init__(self, inside: int, outside: int):
        super().__init__()
        self.weight = nn.Parameter((torch.randn(outside, inside) / inside**0.5).bfloat16())

    def forward(self, x):
        return nn.functional.linear(x, self.weight)


def get_inputs():
    return [torch.randn(ROWS, INSIDE).bfloat16()]


def get_init_inputs():
    return [INSIDE, OUTSIDE]
