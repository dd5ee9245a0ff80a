# status: WRONG_VALUES
# class: N1
# problem: level1/11_rms_norm
# shapes: small
# backend: cpp
"""The normaliser is computed from half-precision squares."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features, epsilon):
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(1.0 + 0.3 * torch.randn(features))

    def forward(self, x):
        scale = torch.rsqrt(x.half().square().mean(dim=-1, keepdim=True).float() + self.epsilon)
        return x * scale * self.weight
