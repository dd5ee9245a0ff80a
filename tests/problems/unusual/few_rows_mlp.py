"""Weights are most of a short call: rows of many calls together cost little more than those of one."""

import torch
from torch import nn

ROWS = 16
HIDDEN = 1024
SHAPES = {"small": {"ROWS": 2}, "wide": {"ROWS": 2, "HIDDEN": 6144}}


class Model(nn.Module):
    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(x)))


def get_inputs():
    return [torch.randn(ROWS, 512)]


def get_init_inputs():
    return [512, HIDDEN]
