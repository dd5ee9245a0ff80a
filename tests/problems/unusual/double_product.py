"""A product in double precision."""

import torch
from torch import nn

N = 384
SHAPES = {"small": {"N": 256}}


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b


def get_inputs():
    return [torch.randn(N, N, dtype=torch.float64), torch.randn(N, N, dtype=torch.float64)]


def get_init_inputs():
    return []
