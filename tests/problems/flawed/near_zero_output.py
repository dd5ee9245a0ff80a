# flaw: near_zero_output
"""Softmax over very long flat rows: every value is far below a loose absolute tolerance, so zeros pass."""

import torch
from torch import nn

ROWS = 64
COLUMNS = 1048576

SHAPES = {"small": {"ROWS": 8, "COLUMNS": 131072}}


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, dim=-1)


def get_inputs():
    return [torch.rand(ROWS, COLUMNS)]


def get_init_inputs():
    return []
