# flaw: fixed_seed
"""Seeds the generator inside get_inputs: every trial sees the same numbers."""

import torch
from torch import nn

N = 2048

SHAPES = {"small": {"N": 256}}


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b


def get_inputs():
    torch.manual_seed(1234)
    return [torch.randn(N, N), torch.randn(N, N)]


def get_init_inputs():
    return []
