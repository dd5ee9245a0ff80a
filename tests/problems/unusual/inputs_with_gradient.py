"""An input that asks for its gradient, and a model nobody told to run without one."""

import torch
from torch import nn

BATCH = 512
FEATURES = 256


class Model(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.linear = nn.Linear(features, features)

    def forward(self, x):
        return torch.sin(self.linear(x))


def get_inputs():
    return [torch.randn(BATCH, FEATURES, requires_grad=True)]


def get_init_inputs():
    return [FEATURES]
