"""The output is a boolean mask, compared exactly."""

import torch
from torch import nn

ROWS = 2048
COLUMNS = 1024
SHAPES = {"small": {"ROWS": 512, "COLUMNS": 1024}}


class Model(nn.Module):
    def forward(self, x, limit):
        return x > limit


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.randn(ROWS, 1)]


def get_init_inputs():
    return []
