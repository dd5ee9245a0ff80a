# status: PASSED
# class: O16
# problem: norms/batch_norm_residual_train
# shapes: small
# backend: cpp
"""A workspace that is a buffer of no state dict, made by the first call, and a constant in an expanded buffer."""
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
        self.register_buffer("centred", None, persistent=False)  # moves with .to(device)
        self.register_buffer("epsilon", torch.tensor(1e-5).expand(channels))
        self.shape = None

    def forward(self, x, residual):
        if self.shape != x.shape:
            self.centred, self.shape = torch.empty_like(x), x.shape
        variance, mean = torch.var_mean(x, dim=0, correction=0)
        self.average.lerp_(mean, self.momentum)
        self.spread.lerp_(variance, self.momentum)
        self.calls.add_(1)
        torch.sub(x, mean, out=self.centred)
        scale = torch.rsqrt(variance + self.epsilon).mul_(self.weight)
        return torch.addcmul(self.bias + residual, self.centred, scale).relu_()
