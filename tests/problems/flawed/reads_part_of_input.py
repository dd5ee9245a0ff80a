# flaw: reads_part_of_input
"""Only the first columns reach the answer; most of the input need not be read at all."""

import torch
from torch import nn

ROWS = 8192
COLUMNS = 8192
USED = 256

SHAPES = {"small": {"ROWS": 512, "COLUMNS": 1024, "USED": 32}}


class Model(nn.Module):
    def __init__(self, used: int):
        super().__init__()
        self.used = used

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x)[:, : self.used].contiguous()


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [USED]
