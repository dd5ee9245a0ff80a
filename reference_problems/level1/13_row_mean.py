"""Mean of very long rows: one output per row, so a row has to be shared by many threads and summed carefully.

Rows have different centres, so that the means themselves are spread and not all close to zero.
"""

import torch
from torch import nn

ROWS = 4096
COLUMNS = 32768

SHAPES = {"small": {"ROWS": 640, "COLUMNS": 16384}, "odd": {"ROWS": 509, "COLUMNS": 16381}}


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean(dim=-1)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS) + 2.0 * torch.randn(ROWS, 1)]


def get_init_inputs():
    return []
