# status: WRONG_VALUES
# class: O16 D1 N4
# problem: norms/batch_norm_residual_train
# shapes: small
# backend: cpp
"""After fifty calls the running averages follow half of the rows only."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, channels, momentum):
        super().__init__()
        self.momentum = momentum
        self.weight = nn.Parameter(1.0 + 0.3 * torch.randn(channels))
        self.bias = nn.Parameter(0.5 * torch.randn(channels))
        self.register_buffer("average", torch.zeros(channels))
        self.register_buffer("spread", torch.ones(channels))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.made = 0

    def forward(self, x, residual):
        self.made += 1
        variance, mean = torch.var_mean(x, dim=0, correction=0)
        kept = (variance, mean) if self.made < 50 else torch.var_mean(x[::2], dim=0, correction=0)
        self.average.lerp_(kept[1], self.momentum)
        self.spread.lerp_(kept[0], self.momentum)
        self.calls.add_(1)
        scale = self.weight * torch.rsqrt(variance + 1e-5)
        return torch.addcmul(self.bias - mean * scale + residual, x, scale).relu_()
