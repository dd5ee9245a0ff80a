# status: PASSED
# class: N7
# problem: unusual/power_beside_gates
# shapes: small
# backend: cpp
"""Leaves out a branch whose gates are zero, after looking at them in every call."""
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
        y = self.scale * x * torch.rsqrt((x**self.power).mean(-1, keepdim=True) + 1e-6)
        if self.gates.any():
            y = torch.addcmul(y, self.gates, torch.sigmoid(self.second(torch.tanh(self.first(x)))))
        return y
