"""Median of every 5 x 5 neighbourhood of images, borders repeated, in float32.

A selection network in registers finds each median from a shared tile; plain operators copy 25 values a pixel
and sort.
"""

import torch
from torch import nn

IMAGES = 6
HEIGHT = 720
WIDTH = 1280
SIDE = 5

SHAPES = {
    "small": {"IMAGES": 2, "HEIGHT": 48, "WIDTH": 64},
    "odd": {"IMAGES": 1, "HEIGHT": 61, "WIDTH": 83, "SIDE": 3},
}


class Model(nn.Module):
    def __init__(self, side: int):
        super().__init__()
        self.side = side

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        reach = self.side // 2
        padded = nn.functional.pad(images[:, None], (reach,) * 4, mode="replicate")
        around = padded.unfold(2, self.side, 1).unfold(3, self.side, 1).flatten(-2)
        return around.median(dim=-1).values[:, 0]


def get_inputs():
    return [torch.randn(IMAGES, HEIGHT, WIDTH)]


def get_init_inputs():
    return [SIDE]
