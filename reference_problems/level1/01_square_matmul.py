"""Product of two square matrices, C = A B: compute-bound, the classic test of tiling and reuse."""

import torch
from torch import nn

N = 4096

SHAPES = {"small": {"N": 448}, "odd": {"N": 347}}


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b


def get_inputs():
    return [torch.randn(N, N), torch.randn(N, N)]


def get_init_inputs():
    return []
