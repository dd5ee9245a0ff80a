"""Product of matrices of prime sizes: every tile edge is ragged and no row is aligned for wide loads."""

import torch
from torch import nn

M = 2053
K = 3079
N = 1543

SHAPES = {"small": {"M": 317, "K": 467, "N": 379}, "odd": {"M": 263, "K": 397, "N": 331}}


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b


def get_inputs():
    return [torch.randn(M, K), torch.randn(K, N)]


def get_init_inputs():
    return []
