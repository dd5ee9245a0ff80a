"""Bilateral filter: an average over neighbours weighted by nearness in place and in brightness, in float32.

A tile and its halo on chip serve all 81 weights a pixel; the unfolded form copies every pixel 81 times.
"""

import torch
from torch import nn

IMAGES = 2
HEIGHT = 720
WIDTH = 1280
REACH = 4

SHAPES = {
    "small": {"IMAGES": 1, "HEIGHT": 64, "WIDTH": 80, "REACH": 2},
    "odd": {"IMAGES": 1, "HEIGHT": 61, "WIDTH": 83, "REACH": 3},
}


class Model(nn.Module):
    def __init__(self, reach: int):
        super().__init__()
        self.reach = reach
        self.near = nn.Parameter(2.0 + torch.rand(()))
        self.alike = nn.Parameter(0.3 + 0.2 * torch.rand(()))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        height, width, reach = *images.shape[-2:], self.reach
        padded = nn.functional.pad(images[:, None], (reach,) * 4, mode="replicate")[:, 0]
        total, weights = torch.zeros_like(images), torch.zeros_like(images)
        for down in range(2 * reach + 1):
            for right in range(2 * reach + 1):
                other = padded[:, down : down + height, right : right + width]
                apart = ((down - reach) ** 2 + (right - reach) ** 2) / self.near.square()
                weight = torch.exp(-0.5 * (apart + ((other - images) / self.alike).square()))
                total, weights = total + weight * other, weights + weight
        return total / weights


def get_inputs():
    return [torch.rand(IMAGES, HEIGHT, WIDTH)]


def get_init_inputs():
    return [REACH]
