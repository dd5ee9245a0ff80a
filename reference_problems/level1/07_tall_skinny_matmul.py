"""Very many rows through a narrow matrix: a matmul bound by memory, whose right side fits on chip."""

import torch
from torch import nn

M = 524288
K = 64
N = 48

SHAPES = {"small": {"M": 24576, "K": 48, "N": 32}, "odd": {"M": 16411, "K": 45, "N": 27}}


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b


def get_inputs():
    return [torch.randn(M, K), torch.randn(K, N)]


def get_init_inputs():
    return []
