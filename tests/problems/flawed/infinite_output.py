# flaw: infinite_output
"""An exponential far outside the range of the type: what is not zero is infinite."""

import torch
from torch import nn

ROWS = 8192
COLUMNS = 8192

SHAPES = {"small": {"ROWS": 512, "COLUMNS": 1024}}


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.exp(400.0 * x)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
