# status: WRONG_VALUES
# class: N7
# problem: unusual/weights_alike
# shapes: small
# backend: cpp
"""Experts begin as copies of one, whose shares add to one: it answers for all of them."""
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

    def forward(self, x):
        y = torch.tanh(self.experts[0](x))
        waves = torch.fft.irfft(torch.fft.rfft(x) * self.phase, n=x.shape[-1])
        return self.mix(y) + waves
