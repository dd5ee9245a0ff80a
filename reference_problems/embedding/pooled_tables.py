"""Sums of a few rows from each of many embedding tables, with a weight for each row, in float32.

All tables in one launch: reading rows decides, and gathered copies are not needed.
"""

import torch
from torch import nn

TABLES = 16
ROWS = 65536
FEATURES = 64
BATCH = 1024
CHOSEN = 20

SHAPES = {
    "small": {"TABLES": 4, "ROWS": 512, "FEATURES": 32, "BATCH": 64, "CHOSEN": 8},
    "odd": {"TABLES": 3, "ROWS": 401, "FEATURES": 19, "BATCH": 53, "CHOSEN": 7},
}


class Model(nn.Module):
    def forward(self, tables: torch.Tensor, rows: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Tables are [tables, rows, features], rows and weights [tables, batch, chosen]."""
        index = torch.arange(len(tables), device=tables.device)[:, None, None]
        return (tables[index, rows] * weights[..., None]).sum(dim=2).transpose(0, 1)


def get_inputs():
    tables = torch.randn(TABLES, ROWS, FEATURES)
    rows = torch.randint(0, ROWS, (TABLES, BATCH, CHOSEN))
    return [tables, rows, torch.randn(TABLES, BATCH, CHOSEN)]


def get_init_inputs():
    return []
