"""Byte images to network input: antialiased resize, normalised channels, channels first.

One kernel reads bytes once and writes the small result; plain operators widen the whole image first. In
float32.
"""

import torch
from torch import nn

IMAGES = 16
HEIGHT = 720
WIDTH = 1280
SIDE = 224

SHAPES = {
    "small": {"IMAGES": 2, "HEIGHT": 96, "WIDTH": 128, "SIDE": 32},
    "odd": {"IMAGES": 1, "HEIGHT": 83, "WIDTH": 107, "SIDE": 29},
}


class Model(nn.Module):
    def __init__(self, side: int):
        super().__init__()
        self.side = side
        self.mean = nn.Parameter(0.4 + 0.1 * torch.rand(3))
        self.spread = nn.Parameter(0.2 + 0.1 * torch.rand(3))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Images are [images, height, width, 3] of uint8."""
        wide = images.permute(0, 3, 1, 2).to(self.mean.dtype) / 255.0
        small = nn.functional.interpolate(wide, (self.side, self.side), mode="bilinear", antialias=True)
        return (small - self.mean[:, None, None]) / self.spread[:, None, None]


def get_inputs():
    return [torch.randint(0, 256, (IMAGES, HEIGHT, WIDTH, 3), dtype=torch.uint8)]


def get_init_inputs():
    return [SIDE]
