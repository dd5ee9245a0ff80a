# status: PASSED
# class: N3
# problem: level1/23_swish
# shapes: odd
# backend: cpp
"""The logistic function as half a hyperbolic tangent."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.beta = nn.Parameter(1.0 + 0.5 * torch.randn(features))

    def forward(self, x):
        return x * torch.tanh(0.5 * self.beta * x).mul_(0.5).add_(0.5)
