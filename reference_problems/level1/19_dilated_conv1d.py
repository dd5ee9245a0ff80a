"""Causal dilated convolution over sequences: padded on the left only, taps several steps apart."""

import torch
from torch import nn

BATCH = 64
IN_CHANNELS = 64
OUT_CHANNELS = 128
LENGTH = 8192
KERNEL = 5
DILATION = 3

SHAPES = {
    "small": {"BATCH": 4, "IN_CHANNELS": 32, "OUT_CHANNELS": 48, "LENGTH": 1024},
    "odd": {"BATCH": 5, "IN_CHANNELS": 27, "OUT_CHANNELS": 37, "LENGTH": 1013},
}


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel: int, dilation: int):
        super().__init__()
        self.padding = dilation * (kernel - 1)
        self.conv = nn.Conv1d(in_channels, out_channels, kernel, dilation=dilation)
        nn.init.normal_(self.conv.bias, std=0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(nn.functional.pad(x, (self.padding, 0)))


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, LENGTH)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL, DILATION]
