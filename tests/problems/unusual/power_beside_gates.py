"""A norm whose power must stay two, or numbers below zero have none, beside a branch behind gates of zero."""

import torch
from torch import nn

ROWS = 2048
FEATURES = 256

SHAPES = {"small": {"ROWS": 1024}}


class Model(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.power = nn.Parameter(torch.full((), 2.0))
        self.gates = nn.Parameter(torch.zeros(features))
        self.scale = nn.Parameter(torch.ones(features))
        self.first = nn.Linear(features, features)
        self.second = nn.Linear(features, features)

    def forward(self, x):
        branch = torch.sigmoid(self.second(torch.tanh(self.first(x))))
        size = (x**self.power).mean(-1, keepdim=True) + 1e-6
        return self.scale * x * torch.rsqrt(size) + self.gates * branch


def get_inputs():
    return [torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return [FEATURES]
