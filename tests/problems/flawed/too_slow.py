# flaw: too_slow
"""Thousands of large products in a row: petaflops for one answer."""

import torch
from torch import nn

N = 16384
ROUNDS = 4000


class Model(nn.Module):
    def __init__(self, rounds: int):
        super().__init__()
        self.rounds = rounds

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        for _ in range(self.rounds):
            a = torch.tanh(a @ b)
        return a


def get_inputs():
    return [torch.randn(N, N), torch.randn(N, N)]


def get_init_inputs():
    return [ROUNDS]
