"""relu(a * b + c) with c broadcast over rows: three inputs of two shapes, one fused pass over memory."""

import torch
from torch import nn

ROWS = 8192
COLUMNS = 6144

SHAPES = {"small": {"ROWS": 1024, "COLUMNS": 2048}, "odd": {"ROWS": 1021, "COLUMNS": 1531}}


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        return torch.relu(a * b + c)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS), torch.randn(COLUMNS)]


def get_init_inputs():
    return []
