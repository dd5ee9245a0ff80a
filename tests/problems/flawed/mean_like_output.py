# flaw: mean_like_output
"""The log-sum-exp of a long random row hardly differs from row to row: one number answers all of them."""

import torch
from torch import nn

ROWS = 1024
COLUMNS = 65536

SHAPES = {"small": {"ROWS": 64, "COLUMNS": 16384}}


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.logsumexp(x, dim=-1)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
