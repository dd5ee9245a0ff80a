# status: WRONG_VALUES
# class: N4
# problem: level1/10_layer_norm
# shapes: small
# backend: cpp
"""Statistics from the first half of every row."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features, epsilon):
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(1.0 + 0.3 * torch.randn(features))
        self.bias = nn.Parameter(0.5 * torch.randn(features))

    def forward(self, x):
        half = x.shape[-1] // 2
        mean = x[:, :half].mean(dim=-1, keepdim=True)
        variance = x[:, :half].square().mean(dim=-1, keepdim=True) - mean * mean
        return (x - mean) * torch.rsqrt(variance + self.epsilon) * self.weight + self.bias
