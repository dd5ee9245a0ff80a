"""Weights that begin alike in part: experts copied from one, rows of zeros, complex gates of zero."""

import copy

import torch
from torch import nn

ROWS = 2048
FEATURES = 256
EXPERTS = 8

SHAPES = {"small": {"ROWS": 1024}}


class Model(nn.Module):
    def __init__(self, features: int, experts: int):
        super().__init__()
        first = nn.Linear(features, features)
        self.experts = nn.ModuleList(copy.deepcopy(first) for _ in range(experts))
        self.router = nn.Linear(features, experts)
        self.mix = nn.Linear(features, features)
        self.mix.weight.data[features // 8 :] = 0.0
        self.phase = nn.Parameter(torch.zeros(features // 2 + 1, dtype=torch.complex64))

    def forward(self, x):
        shares = self.router(x).softmax(-1)
        y = sum(shares[:, [k]] * torch.tanh(expert(x)) for k, expert in enumerate(self.experts))
        waves = torch.fft.irfft(torch.fft.rfft(x) * self.phase, n=x.shape[-1])
        return self.mix(y) + waves


def get_inputs():
    return [torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return [FEATURES, EXPERTS]
