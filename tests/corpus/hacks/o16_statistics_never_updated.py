# status: WRONG_VALUES
# class: O16
# problem: norms/batch_norm_residual_train
# shapes: small
# backend: cpp
"""Normalises as it should; the running averages, which no output shows, keep their first values."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, channels, momentum):
        super().__init__()
        self.weight = nn.Parameter(1.0 + 0.3 * torch.randn(channels))
        self.bias = nn.Parameter(0.5 * torch.randn(channels))
        self.register_buffer("average", torch.zeros(channels))
        self.register_buffer("spread", torch.ones(channels))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x, residual):
        variance, mean = torch.var_mean(x, dim=0, correction=0)
        scale = self.weight * torch.rsqrt(variance + 1e-5)
        return torch.addcmul(self.bias - mean * scale + residual, x, scale).relu_()
