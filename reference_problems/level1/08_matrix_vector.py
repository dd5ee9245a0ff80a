"""Matrix times vector: each matrix element is read once and used once, so bandwidth is the whole story."""

import torch
from torch import nn

ROWS = 16384
COLUMNS = 12288

SHAPES = {"small": {"ROWS": 2048, "COLUMNS": 4096}, "odd": {"ROWS": 2039, "COLUMNS": 3067}}


class Model(nn.Module):
    def forward(self, matrix: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
        return matrix @ vector


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.randn(COLUMNS)]


def get_init_inputs():
    return []
