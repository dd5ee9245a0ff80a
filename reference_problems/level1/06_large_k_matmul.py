"""Few outputs, each a very long sum: the output has too few tiles to fill a GPU, so K itself must be split.

The length of the sum also makes the order and width of accumulation visible in the error.
"""

import torch
from torch import nn

M = 384
K = 131072
N = 320

SHAPES = {"small": {"M": 48, "K": 24576, "N": 40}, "odd": {"M": 37, "K": 20483, "N": 29}}


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b


def get_inputs():
    return [torch.randn(M, K), torch.randn(K, N)]


def get_init_inputs():
    return []
