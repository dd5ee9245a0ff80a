# status: PASSED
# class: N1 N3
# problem: level1/10_layer_norm
# shapes: odd
# backend: cpp
"""Variance as the mean of squares less the square of the mean, in float32, as many kernels do."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features, epsilon):
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(1.0 + 0.3 * torch.randn(features))
        self.bias = nn.Parameter(0.5 * torch.randn(features))

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        variance = (x * x).mean(-1, keepdim=True) - mean * mean
        return (x - mean) * torch.rsqrt(variance + self.epsilon) * self.weight + self.bias
