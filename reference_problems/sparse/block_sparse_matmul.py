"""Product with a matrix of which a random tenth of the 64 x 64 blocks counts, in float32.

The masked dense form multiplies all blocks; a kernel visits those that count.
"""

import torch
from torch import nn

ROWS = 1024
INNER = 4096
COLUMNS = 4096
BLOCK = 64
KEPT = 0.1

SHAPES = {
    "small": {"ROWS": 64, "INNER": 256, "COLUMNS": 192, "BLOCK": 32, "KEPT": 0.3},
    "odd": {"ROWS": 53, "INNER": 187, "COLUMNS": 119, "BLOCK": 17, "KEPT": 0.3},
}


class Model(nn.Module):
    def __init__(self, inner: int, columns: int, block: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inner, columns) / inner**0.5)
        self.block = block

    def forward(self, x: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        """`chosen` [inner / block, columns / block] is True where a block of the weight counts."""
        mask = chosen.repeat_interleave(self.block, dim=0).repeat_interleave(self.block, dim=1)
        return x @ torch.where(mask, self.weight, 0.0)


def get_inputs():
    return [torch.randn(ROWS, INNER), torch.rand(INNER // BLOCK, COLUMNS // BLOCK) < KEPT]


def get_init_inputs():
    return [INNER, COLUMNS, BLOCK]
