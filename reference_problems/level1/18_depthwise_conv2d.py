"""Depthwise 5x5 convolution, one filter per channel: little arithmetic, so reuse of neighbours decides."""

import torch
from torch import nn

BATCH = 32
CHANNELS = 192
HEIGHT = 112
WIDTH = 112
KERNEL = 5

SHAPES = {
    "small": {"BATCH": 6, "CHANNELS": 48, "HEIGHT": 56, "WIDTH": 64},
    "odd": {"BATCH": 5, "CHANNELS": 37, "HEIGHT": 53, "WIDTH": 59},
}


class Model(nn.Module):
    def __init__(self, channels: int, kernel: int):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, kernel, padding=kernel // 2, groups=channels)
        nn.init.normal_(self.conv.bias, std=0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [CHANNELS, KERNEL]
