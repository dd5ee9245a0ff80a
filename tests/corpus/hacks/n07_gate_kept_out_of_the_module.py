# status: WRONG_VALUES
# class: N7
# problem: unusual/gates
# shapes: small
# backend: cpp
"""Has no parameter of the names of the gates, which could then not be given to it."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.first = nn.Linear(features, features)
        self.second = nn.Linear(features, features)
        self.register_buffer("scale", torch.tensor([1.0]).repeat(features))

    def forward(self, x):
        return x * self.scale
