"""Depthwise 7 x 7 convolution and layer normalisation over channels, channels last, in float32.

Library depthwise convolution is slow in this layout; a kernel holds a tile of pixels with all channels and
normalises at once.
"""

import torch
from torch import nn

BATCH = 16
CHANNELS = 192
SIDE = 56

SHAPES = {
    "small": {"BATCH": 2, "CHANNELS": 48, "SIDE": 14},
    "odd": {"BATCH": 1, "CHANNELS": 37, "SIDE": 13},
}


class Model(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.filters = nn.Parameter(torch.randn(channels, 1, 7, 7) / 7.0)
        self.bias = nn.Parameter(torch.randn(channels))
        self.scale = nn.Parameter(0.5 + torch.rand(channels))
        self.shift = nn.Parameter(torch.randn(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x is [batch, side, side, channels]."""
        channels = x.shape[-1]
        mixed = nn.functional.conv2d(
            x.permute(0, 3, 1, 2), self.filters, self.bias, padding=3, groups=channels
        ).permute(0, 2, 3, 1)
        return nn.functional.layer_norm(mixed, (channels,), self.scale, self.shift)


def get_inputs():
    return [torch.randn(BATCH, SIDE, SIDE, CHANNELS)]


def get_init_inputs():
    return [CHANNELS]
