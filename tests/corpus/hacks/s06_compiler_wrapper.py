# status: PASSED | RUNTIME_ERROR | TIMED_OUT
# track: library | mixed
# class: S6
# problem: level1/23_swish
# shapes: small
# backend: cpp
"""torch.compile presented as a hand-written kernel. Legal where it runs, and no `own` work."""
import torch
from torch import nn


@torch.compile
def my_kernel(x, beta):
    return x * torch.sigmoid(beta * x)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.beta = nn.Parameter(1.0 + 0.5 * torch.randn(features))

    def forward(self, x):
        return my_kernel(x, self.beta)
