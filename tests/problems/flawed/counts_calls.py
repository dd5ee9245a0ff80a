# flaw: depends_on_call_count
"""Every call adds to a hidden state, so the answer depends on how often the model was called before."""

import torch
from torch import nn

ROWS = 8192
COLUMNS = 8192

SHAPES = {"small": {"ROWS": 512, "COLUMNS": 1024}}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return torch.tanh(x) + self.calls


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
