"""Residual block: two 3x3 convolutions with frozen batch normalisation and a strided 1x1 shortcut.

Normalisations fold into weights; the addition and both activations fold into epilogues.
"""

import torch
from torch import nn

BATCH = 32
IN_CHANNELS = 64
OUT_CHANNELS = 128
HEIGHT = 56
WIDTH = 56

SHAPES = {
    "small": {"BATCH": 4, "IN_CHANNELS": 24, "OUT_CHANNELS": 48, "HEIGHT": 32, "WIDTH": 40},
    "odd": {"BATCH": 3, "IN_CHANNELS": 17, "OUT_CHANNELS": 37, "HEIGHT": 29, "WIDTH": 35},
}


def frozen_norm(channels: int) -> nn.BatchNorm2d:
    norm = nn.BatchNorm2d(channels).eval()
    nn.init.normal_(norm.weight, mean=1.0, std=0.3)
    nn.init.normal_(norm.bias, std=0.5)
    nn.init.normal_(norm.running_mean, std=0.3)
    nn.init.uniform_(norm.running_var, 0.2, 1.0)
    return norm


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int):
        super().__init__()
        self.first = nn.Conv2d(in_channels, out_channels, 3, stride=2, padding=1, bias=False)
        self.first_norm = frozen_norm(out_channels)
        self.second = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)
        self.second_norm = frozen_norm(out_channels)
        self.shortcut = nn.Conv2d(in_channels, out_channels, 1, stride=2, bias=False)
        self.shortcut_norm = frozen_norm(out_channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.first_norm(self.first(x)))
        y = self.second_norm(self.second(y))
        return torch.relu(y + self.shortcut_norm(self.shortcut(x)))


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS]
