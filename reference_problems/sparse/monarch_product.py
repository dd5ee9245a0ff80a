"""Monarch matrix: two block-diagonal products with a transposition of blocks between them, in float32.

Each block is small enough to stay on chip, so one kernel can do both products without storing what lies
between.
"""

import torch
from torch import nn

ROWS = 8192
BLOCKS = 32
SIDE = 32

SHAPES = {
    "small": {"ROWS": 96, "BLOCKS": 8, "SIDE": 8},
    "odd": {"ROWS": 83, "BLOCKS": 7, "SIDE": 11},
}


class Model(nn.Module):
    def __init__(self, blocks: int, side: int):
        super().__init__()
        self.first = nn.Parameter(torch.randn(blocks, side, side) / side**0.5)
        self.second = nn.Parameter(torch.randn(side, blocks, blocks) / blocks**0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        blocks, side = self.first.shape[:2]
        middle = torch.einsum("rbi,bij->rbj", x.unflatten(-1, (blocks, side)), self.first)
        return torch.einsum("rbj,jbc->rcj", middle, self.second).flatten(-2)


def get_inputs():
    return [torch.randn(ROWS, BLOCKS * SIDE)]


def get_init_inputs():
    return [BLOCKS, SIDE]
