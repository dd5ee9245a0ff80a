"""Short causal depthwise convolution along time followed by SiLU, as before a state-space scan.

Four taps a channel: bound by memory, one read and one write; in float32, channels along rows.
"""

import torch
from torch import nn

BATCH = 4
FEATURES = 2048
LENGTH = 4096
TAPS = 4

SHAPES = {
    "small": {"BATCH": 2, "FEATURES": 64, "LENGTH": 256},
    "odd": {"BATCH": 3, "FEATURES": 37, "LENGTH": 251, "TAPS": 5},
}


class Model(nn.Module):
    def __init__(self, features: int, taps: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features, 1, taps) / 2.0)
        self.bias = nn.Parameter(torch.randn(features) / 2.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        taps, features = self.weight.shape[-1], x.shape[1]
        padded = nn.functional.pad(x, (taps - 1, 0))
        return nn.functional.silu(nn.functional.conv1d(padded, self.weight, self.bias, groups=features))


def get_inputs():
    return [torch.randn(BATCH, FEATURES, LENGTH)]


def get_init_inputs():
    return [FEATURES, TAPS]
