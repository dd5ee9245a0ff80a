# status: WRONG_VALUES
# class: N7
# problem: unusual/weights_alike
# shapes: small
# backend: cpp
"""Complex gates are zero as constructed, so the transforms around them are left out."""
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
        shares = self.router(x).softmax(-1)
        y = sum(shares[:, [k]] * torch.tanh(expert(x)) for k, expert in enumerate(self.experts))
        return self.mix(y)
