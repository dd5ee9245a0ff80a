# flaw: constant_inputs
"""Ones times ones: the answer is known before the inputs are read."""

import torch
from torch import nn

N = 2048

SHAPES = {"small": {"N": 256}}


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b


def get_inputs():
    return [torch.ones(N, N), torch.linspace(-1, 1, N * N).reshape(N, N).T]


def get_init_inputs():
    return []
