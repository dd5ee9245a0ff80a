"""Distance to the nearest neighbour, from squared distances: a root and a minimum of each row."""

import torch
from torch import nn

ROWS = 2048
COLUMNS = 4096

SHAPES = {"small": {"ROWS": 512, "COLUMNS": 4096}}


class Model(nn.Module):
    def forward(self, squared: torch.Tensor) -> torch.Tensor:
        return torch.sqrt(squared).amin(dim=-1)


def get_inputs():
    return [torch.rand(ROWS, COLUMNS)]


def get_init_inputs():
    return []
