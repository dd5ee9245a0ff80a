# flaw: mutates_input
"""Works in place on its input: the caller's tensor is another one after each call."""

import torch
from torch import nn

ROWS = 8192
COLUMNS = 8192

SHAPES = {"small": {"ROWS": 512, "COLUMNS": 1024}}


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mul_(0.5).add_(1.0).tanh()


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
