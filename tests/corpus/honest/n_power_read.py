# status: PASSED
# class: N7
# problem: unusual/power_beside_gates
# shapes: small
# backend: cpp
"""Reads the power and squares where it is two; the gates it reads like any weight."""
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
        powered = x * x if self.power == 2 else x**self.power
        y = x * torch.rsqrt(powered.mean(-1, keepdim=True) + 1e-6)
        return torch.addcmul(self.scale * y, self.gates, branch)
