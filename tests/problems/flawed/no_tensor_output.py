# flaw: no_tensor_output
"""Returns a Python number: no tensor leaves the model, and the device is waited for inside."""

import torch
from torch import nn

ROWS = 8192
COLUMNS = 8192

SHAPES = {"small": {"ROWS": 512, "COLUMNS": 1024}}


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> float:
        return x.square().sum().item()


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
