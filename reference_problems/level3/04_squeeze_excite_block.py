"""Depthwise convolution, squeeze and excitation, pointwise convolution, residual.

An image's channel gates need all of its pixels before a single output can be written.
"""

import math

import torch
from torch import nn

BATCH = 64
CHANNELS = 192
SQUEEZED = 48
HEIGHT = 56
WIDTH = 56

SHAPES = {
    "small": {"BATCH": 4, "CHANNELS": 64, "SQUEEZED": 16, "HEIGHT": 32, "WIDTH": 36},
    "odd": {"BATCH": 3, "CHANNELS": 59, "SQUEEZED": 15, "HEIGHT": 37, "WIDTH": 29},
}


class Model(nn.Module):
    def __init__(self, channels: int, squeezed: int):
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.squeeze = nn.Linear(channels, squeezed)
        self.excite = nn.Linear(squeezed, channels)
        self.pointwise = nn.Conv2d(channels, channels, 1)
        nn.init.normal_(self.depthwise.weight, std=0.5)
        nn.init.normal_(self.squeeze.weight, std=3.0 / math.sqrt(channels))
        nn.init.normal_(self.excite.weight, std=2.0 / math.sqrt(squeezed))
        nn.init.normal_(self.pointwise.weight, std=2.0 / math.sqrt(channels))
        for layer in (self.depthwise, self.squeeze, self.excite, self.pointwise):
            nn.init.normal_(layer.bias, std=0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.silu(self.depthwise(x))
        gate = torch.sigmoid(self.excite(nn.functional.silu(self.squeeze(y.mean(dim=(2, 3))))))
        return x + self.pointwise(y * gate[:, :, None, None])


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [CHANNELS, SQUEEZED]
