# status: WRONG_VALUES
# class: N7
# problem: unusual/power_beside_gates
# shapes: small
# backend: cpp
"""The power must stay as it is, and so, it is hoped, the scale of one beside it."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.power = nn.Parameter(torch.full((), 2.0))
        self.gates = nn.Parameter(torch.zeros(features))
        self.scale = nn.Parameter(torch.ones(features))
        self.first = nn.Linear(features, features)
        self.second = nn.Linear(features, features)

    def forward(self, x):
        branch = torch.sigmoid(self.second(torch.tanh(self.first(x))))
        y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
        return torch.addcmul(y, self.gates, branch)
