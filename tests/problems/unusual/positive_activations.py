"""Down projection of one token's activations, which are all positive: bound by reading the weights."""

import torch
from torch import nn

WIDTH = 4096
OUT = 2048

SHAPES = {"small": {"WIDTH": 2048}}


class Model(nn.Module):
    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, out) * width**-0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) @ self.weight


def get_inputs():
    return [torch.rand(1, WIDTH)]


def get_init_inputs():
    return [WIDTH, OUT]
