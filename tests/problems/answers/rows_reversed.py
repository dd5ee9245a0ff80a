"""Nothing but a copy of many bytes: rows in the opposite order, in new memory."""

import torch
from torch import nn

ROWS = 1024
COLUMNS = 16384

SHAPES = {"small": {"ROWS": 256, "COLUMNS": 16384}}


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flip(0)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
