"""Outer-product mean: products of every two columns of an alignment, averaged over sequences and projected.

The N^2 c^2 outer products need not be stored; a kernel contracts a tile of pairs with the projection on chip.
In float32.
"""

import torch
from torch import nn

SEQUENCES = 256
COLUMNS = 160
NARROW = 16
FEATURES = 64

SHAPES = {
    "small": {"SEQUENCES": 32, "COLUMNS": 24, "NARROW": 8, "FEATURES": 32},
    "odd": {"SEQUENCES": 29, "COLUMNS": 19, "NARROW": 5, "FEATURES": 23},
}


class Model(nn.Module):
    def __init__(self, narrow: int, features: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(narrow * narrow, features) / narrow)
        self.bias = nn.Parameter(torch.randn(features))

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """Left and right are [sequences, columns, narrow]; returns [columns, columns, features]."""
        outer = torch.einsum("sia,sjb->ijab", left, right) / left.shape[0] ** 0.5
        return outer.flatten(-2) @ self.weight + self.bias


def get_inputs():
    return list(torch.randn(2, SEQUENCES, COLUMNS, NARROW).unbind())


def get_init_inputs():
    return [NARROW, FEATURES]
