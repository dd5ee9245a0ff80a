"""Residual branches behind gates that start at zero, each written in another way, and scales of one."""

import torch
from torch import nn

ROWS = 1024
FEATURES = 256

SHAPES = {"small": {"ROWS": 512}}


class Model(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.first = nn.Linear(features, features)
        self.second = nn.Linear(features, features)
        self.gate = nn.Parameter(torch.tensor(0.0))
        self.gates = nn.Parameter(torch.zeros(2 * features)[::2])
        self.register_buffer("scale", torch.tensor([1.0]).repeat(features))

    def forward(self, x):
        x = x + self.gate * torch.tanh(self.first(x))
        x = x + self.gates * torch.sigmoid(self.second(x))
        return x * self.scale


def get_inputs():
    return [torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return [FEATURES]
