"""Product with the left matrix stored transposed, C = A^T B with A of shape (K, M).

Both operands are read along their rows of K, so neither side needs a transposing load, only a different tile.
"""

import torch
from torch import nn

M = 3072
K = 6144
N = 2560

SHAPES = {"small": {"M": 320, "K": 512, "N": 384}, "odd": {"M": 253, "K": 401, "N": 307}}


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a.T @ b


def get_inputs():
    return [torch.randn(K, M), torch.randn(K, N)]


def get_init_inputs():
    return []
