"""Product of a Gaussian kernel matrix between two point sets with a few columns, in float32.

The kernel matrix need not be stored: a tile is formed, exponentiated and multiplied on chip.
"""

import torch
from torch import nn

POINTS = 12288
CENTERS = 12288
DIMENSIONS = 8
COLUMNS = 8

SHAPES = {
    "small": {"POINTS": 384, "CENTERS": 320},
    "odd": {"POINTS": 507, "CENTERS": 411, "DIMENSIONS": 5, "COLUMNS": 3},
}


class Model(nn.Module):
    def __init__(self, dimensions: int):
        super().__init__()
        self.widths = nn.Parameter(0.7 + 0.6 * torch.rand(dimensions))

    def forward(self, points: torch.Tensor, centers: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        left, right = points / self.widths, centers / self.widths
        squares = left.square().sum(-1)[:, None] + right.square().sum(-1)[None, :]
        distances = (squares - 2.0 * left @ right.T).clamp(min=0.0)
        return torch.exp(-0.5 * distances) @ values


def get_inputs():
    points, centers = torch.randn(POINTS, DIMENSIONS), torch.randn(CENTERS, DIMENSIONS)
    return [points, centers, torch.randn(CENTERS, COLUMNS)]


def get_init_inputs():
    return [DIMENSIONS]
