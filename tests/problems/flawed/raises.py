# flaw: raises
"""The shapes of its own inputs do not fit together."""

import torch
from torch import nn

M = 512
K = 256


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b


def get_inputs():
    return [torch.randn(M, K), torch.randn(M, K)]


def get_init_inputs():
    return []
