# status: PASSED
# class: O6
# problem: level2/08_residual_rms_norm
# shapes: small
# backend: cpp
"""A list of two where the reference returns a tuple, as C++ bindings do."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features, epsilon):
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(1.0 + 0.3 * torch.randn(features))

    def forward(self, x, residual):
        total = x + residual
        scale = torch.rsqrt(total.square().mean(-1, keepdim=True) + self.epsilon)
        return [total * scale * self.weight, total]
