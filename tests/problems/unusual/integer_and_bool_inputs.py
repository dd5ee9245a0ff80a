"""Inputs of four types in one flat list: float, int64, int32 and bool; all of them select or scale rows."""

import torch
from torch import nn

ROWS = 4096
COLUMNS = 512


class Model(nn.Module):
    def forward(self, x, index, shift, keep):
        return torch.where(keep, x[index], -x[index]) * (1.0 + shift[:, None])


def get_inputs():
    return [
        torch.randn(ROWS, COLUMNS),
        torch.randint(0, ROWS, (ROWS,)),
        torch.randint(-3, 3, (ROWS,), dtype=torch.int32),
        torch.rand(ROWS, COLUMNS) < 0.5,
    ]


def get_init_inputs():
    return []
