"""Gated feed-forward layer, (silu(x G) * (x U)) D: two matmuls share an input and meet in one product."""

import math

import torch
from torch import nn

TOKENS = 4096
FEATURES = 1024
HIDDEN = 2816

SHAPES = {
    "small": {"TOKENS": 192, "FEATURES": 256, "HIDDEN": 512},
    "odd": {"TOKENS": 173, "FEATURES": 241, "HIDDEN": 419},
}


class Model(nn.Module):
    def __init__(self, features: int, hidden: int):
        super().__init__()
        self.gate = nn.Parameter(torch.randn(hidden, features) / math.sqrt(features))
        self.up = nn.Parameter(torch.randn(hidden, features) / math.sqrt(features))
        self.down = nn.Parameter(torch.randn(features, hidden) / math.sqrt(hidden))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = nn.functional.silu(nn.functional.linear(x, self.gate))
        return nn.functional.linear(gate * nn.functional.linear(x, self.up), self.down)


def get_inputs():
    return [torch.randn(TOKENS, FEATURES)]


def get_init_inputs():
    return [FEATURES, HIDDEN]
