"""Convolution, batch normalisation in training mode, ReLU.

Statistics span the batch, so the whole device must meet between the convolution and the first output; the
running averages are updated on the way.
"""

import torch
from torch import nn

BATCH = 32
IN_CHANNELS = 32
OUT_CHANNELS = 64
HEIGHT = 96
WIDTH = 96

SHAPES = {
    "small": {"BATCH": 6, "IN_CHANNELS": 16, "OUT_CHANNELS": 32, "HEIGHT": 40, "WIDTH": 48},
    "odd": {"BATCH": 5, "IN_CHANNELS": 17, "OUT_CHANNELS": 29, "HEIGHT": 37, "WIDTH": 41},
}


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(out_channels)
        nn.init.normal_(self.norm.weight, mean=1.0, std=0.3)
        nn.init.normal_(self.norm.bias, std=0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.conv(x)))


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS]
