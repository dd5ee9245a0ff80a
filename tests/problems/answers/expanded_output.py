"""The output is a view of stride zero, beside a parameter as it is."""

import torch
from torch import nn

ROWS = 4096
COLUMNS = 2048

SHAPES = {"small": {"ROWS": 512, "COLUMNS": 1024}}


class Model(nn.Module):
    def __init__(self, columns: int):
        super().__init__()
        self.offset = nn.Parameter(torch.randn(columns))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        total = (x + self.offset).square().sum(-1, keepdim=True)
        return total.expand_as(x), self.offset


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [COLUMNS]
