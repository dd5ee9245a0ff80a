# flaw: too_big
"""Two matrices of four tebibytes each; it must be refused by its sizes, not by running it."""

import torch
from torch import nn

N = 1048576


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b


def get_inputs():
    return [torch.randn(N, N), torch.randn(N, N)]


def get_init_inputs():
    return []
