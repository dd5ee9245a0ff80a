# flaw: empty_output
"""Selects what exceeds a limit no input reaches: there is nothing to compare."""

import torch
from torch import nn

ROWS = 8192
COLUMNS = 8192

SHAPES = {"small": {"ROWS": 512, "COLUMNS": 1024}}


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[x > 2.0]


def get_inputs():
    return [torch.rand(ROWS, COLUMNS)]


def get_init_inputs():
    return []
