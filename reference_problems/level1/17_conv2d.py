"""Padded 3x3 convolution with bias over images: a matmul in disguise whose left side is never stored."""

import torch
from torch import nn

BATCH = 32
IN_CHANNELS = 48
OUT_CHANNELS = 96
HEIGHT = 112
WIDTH = 112
KERNEL = 3

SHAPES = {
    "small": {"BATCH": 4, "IN_CHANNELS": 24, "OUT_CHANNELS": 48, "HEIGHT": 48, "WIDTH": 48},
    "odd": {"BATCH": 3, "IN_CHANNELS": 17, "OUT_CHANNELS": 29, "HEIGHT": 47, "WIDTH": 51},
}


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel: int):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel, padding=kernel // 2)
        nn.init.normal_(self.conv.bias, std=0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL]
