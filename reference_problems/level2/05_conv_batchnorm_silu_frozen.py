"""Strided convolution, batch normalisation with frozen statistics, SiLU.

The normalisation is an affine map per channel that folds into the convolution's weights or its epilogue.
"""

import torch
from torch import nn

BATCH = 32
IN_CHANNELS = 64
OUT_CHANNELS = 96
HEIGHT = 112
WIDTH = 112

SHAPES = {
    "small": {"BATCH": 8, "IN_CHANNELS": 24, "OUT_CHANNELS": 48, "HEIGHT": 64, "WIDTH": 72},
    "odd": {"BATCH": 5, "IN_CHANNELS": 19, "OUT_CHANNELS": 37, "HEIGHT": 61, "WIDTH": 67},
}


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size=3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(out_channels).eval()
        nn.init.normal_(self.norm.weight, mean=1.0, std=0.3)
        nn.init.normal_(self.norm.bias, std=0.5)
        nn.init.normal_(self.norm.running_mean, std=0.3)
        nn.init.uniform_(self.norm.running_var, 0.2, 1.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.silu(self.norm(self.conv(x)))


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS]
