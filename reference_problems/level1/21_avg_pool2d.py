"""Overlapping 4x4 average pooling with stride 2: windows at the border divide by what they really cover."""

import torch
from torch import nn

BATCH = 32
CHANNELS = 96
HEIGHT = 128
WIDTH = 128

SHAPES = {
    "small": {"BATCH": 6, "CHANNELS": 32, "HEIGHT": 56, "WIDTH": 64},
    "odd": {"BATCH": 5, "CHANNELS": 27, "HEIGHT": 61, "WIDTH": 67},
}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = nn.AvgPool2d(kernel_size=4, stride=2, padding=1, count_include_pad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pool(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return []
