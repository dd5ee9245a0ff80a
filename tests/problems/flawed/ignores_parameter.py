# flaw: ignores_parameter
"""Batch normalisation by batch statistics subtracts the convolution's bias again."""

import torch
from torch import nn

BATCH = 32
CHANNELS = 64
SIZE = 96

SHAPES = {"small": {"BATCH": 4, "CHANNELS": 16, "SIZE": 32}}


class Model(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=True)
        self.norm = nn.BatchNorm2d(channels, track_running_stats=False)
        nn.init.normal_(self.conv.bias)
        nn.init.normal_(self.norm.weight)
        nn.init.normal_(self.norm.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.conv(x))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIZE, SIZE)]


def get_init_inputs():
    return [CHANNELS]
