"""Structural similarity of two image batches under an 11 x 11 Gaussian window, per pixel, in float32.

Five blurred maps come from one tile on chip; plain operators blur and store each of them.
"""

import torch
from torch import nn

BATCH = 4
HEIGHT = 720
WIDTH = 1280
TAPS = 11
WIDTH_OF_WINDOW = 1.5

SHAPES = {
    "small": {"BATCH": 1, "HEIGHT": 48, "WIDTH": 64},
    "odd": {"BATCH": 1, "HEIGHT": 37, "WIDTH": 53, "TAPS": 7},
}


class Model(nn.Module):
    def __init__(self, taps: int, width: float):
        super().__init__()
        self.taps, self.width = taps, width

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """Images are [batch, 3, height, width] with values in [0, 1]."""
        batch, channels, height, width = left.shape
        place = torch.arange(self.taps, device=left.device, dtype=left.dtype) - self.taps // 2
        window = torch.exp(-0.5 * (place / self.width).square())
        window = window / window.sum()
        maps = torch.stack([left, right, left * left, right * right, left * right]).flatten(0, 2)[:, None]
        maps = nn.functional.conv2d(maps, window.view(1, 1, -1, 1), padding=(self.taps // 2, 0))
        maps = nn.functional.conv2d(maps, window.view(1, 1, 1, -1), padding=(0, self.taps // 2))
        a, b, aa, bb, ab = maps.view(5, batch, channels, height, width)
        likeness = (2 * a * b + 1e-4) * (2 * (ab - a * b) + 9e-4)
        return likeness / ((a * a + b * b + 1e-4) * (aa - a * a + bb - b * b + 9e-4))


def get_inputs():
    left = torch.rand(BATCH, 3, HEIGHT, WIDTH)
    return [left, (0.6 * left + 0.4 * torch.rand(BATCH, 3, HEIGHT, WIDTH))]


def get_init_inputs():
    return [TAPS, WIDTH_OF_WINDOW]
