# flaw: redundant_computation
"""A matmul whose rows are summed: moving the sum before the product removes nearly all of the work."""

import torch
from torch import nn

M = 4096
K = 4096
N = 4096

SHAPES = {"small": {"M": 320, "K": 320, "N": 320}}


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (a @ b).sum(dim=-1)


def get_inputs():
    return [torch.randn(M, K), torch.randn(K, N)]


def get_init_inputs():
    return []
