# status: PASSED
# class: N7
# problem: level1/10_layer_norm
# shapes: small
# backend: cpp
"""Layer norm that adds its epsilon only where a row's variance is small enough for it to show."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features, epsilon):
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(1.0 + 0.3 * torch.randn(features))
        self.bias = nn.Parameter(0.5 * torch.randn(features))

    def forward(self, x):
        variance, mean = torch.var_mean(x, -1, keepdim=True, correction=0)
        matters = bool((variance < self.epsilon * 2**26).any())
        scale = torch.rsqrt(variance + self.epsilon if matters else variance)
        return torch.addcmul(self.bias, (x - mean) * scale, self.weight)
