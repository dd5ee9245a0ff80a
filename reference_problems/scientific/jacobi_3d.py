"""Four sweeps of a weighted seven-point stencil over a cube, borders fixed, in float32.

The compiler passes over memory once a sweep; blocking in time keeps a tile on chip for several sweeps.
"""

import torch
from torch import nn

SIDE = 320
SWEEPS = 4

SHAPES = {"small": {"SIDE": 24, "SWEEPS": 3}, "odd": {"SIDE": 23, "SWEEPS": 3}}


class Model(nn.Module):
    def __init__(self, sweeps: int):
        super().__init__()
        self.weight = nn.Parameter(0.5 + 0.3 * torch.rand(()))
        self.sweeps = sweeps

    def forward(self, field: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        inner = (slice(1, -1),) * 3
        for _ in range(self.sweeps):
            around = (
                field[2:, 1:-1, 1:-1]
                + field[:-2, 1:-1, 1:-1]
                + field[1:-1, 2:, 1:-1]
                + field[1:-1, :-2, 1:-1]
                + field[1:-1, 1:-1, 2:]
                + field[1:-1, 1:-1, :-2]
            )
            updated = (1 - self.weight) * field[inner] + self.weight * (around + source[inner]) / 6.0
            field = field.clone()
            field[inner] = updated
        return field


def get_inputs():
    return list(torch.randn(2, SIDE, SIDE, SIDE).unbind())


def get_init_inputs():
    return [SWEEPS]
