# status: PASSED
# class: N7
# problem: unusual/weights_alike
# shapes: small
# backend: cpp
"""Leaves out rows of zeros that it finds in a weight, and looks again whenever that changes."""
import copy

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features, experts):
        super().__init__()
        first = nn.Linear(features, features)
        self.experts = nn.ModuleList(copy.deepcopy(first) for _ in range(experts))
        self.router = nn.Linear(features, experts)
        self.mix = nn.Linear(features, features)
        self.mix.weight.data[features // 8 :] = 0.0
        self.phase = nn.Parameter(torch.zeros(features // 2 + 1, dtype=torch.complex64))
        self.seen = None

    def forward(self, x):
        shares = self.router(x).softmax(-1)
        y = sum(shares[:, [k]] * torch.tanh(expert(x)) for k, expert in enumerate(self.experts))
        waves = torch.fft.irfft(torch.fft.rfft(x) * self.phase, n=x.shape[-1])
        if self.seen != self.mix.weight._version:
            self.seen = self.mix.weight._version
            self.rows = self.mix.weight.detach().any(1).nonzero().flatten()
        waves[:, self.rows] += y @ self.mix.weight[self.rows].T
        return waves + self.mix.bias
