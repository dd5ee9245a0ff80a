"""Six sweeps of a nine-point stencil with weights of its own for centre, edges and corners, on a torus.

Blocking in time keeps a tile and its halo on chip for all sweeps; otherwise each sweep is a pass over memory.
In float32.
"""

import torch
from torch import nn

SIDE = 4096
SWEEPS = 6

SHAPES = {"small": {"SIDE": 96, "SWEEPS": 4}, "odd": {"SIDE": 83, "SWEEPS": 3}}


class Model(nn.Module):
    def __init__(self, sweeps: int):
        super().__init__()
        self.weights = nn.Parameter(torch.tensor([0.4, 0.3, 0.2]) + 0.1 * torch.rand(3))
        self.sweeps = sweeps

    def forward(self, field: torch.Tensor) -> torch.Tensor:
        centre, edge, corner = self.weights
        kernel = torch.stack([corner, edge, corner, edge, centre, edge, corner, edge, corner]).view(
            1, 1, 3, 3
        )
        kernel = kernel / kernel.sum()
        field = field[None, None]
        for _ in range(self.sweeps):
            field = nn.functional.conv2d(nn.functional.pad(field, (1, 1, 1, 1), mode="circular"), kernel)
        return field[0, 0]


def get_inputs():
    return [torch.randn(SIDE, SIDE)]


def get_init_inputs():
    return [SWEEPS]
