# status: PASSED
# class: O12 O9
# problem: level2/08_residual_rms_norm
# shapes: small
# backend: cpp
"""Both outputs are slices of one fresh allocation."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features, epsilon):
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(1.0 + 0.3 * torch.randn(features))

    def forward(self, x, residual):
        both = x.new_empty(2, *x.shape)
        torch.add(x, residual, out=both[1])
        scale = torch.rsqrt(both[1].square().mean(-1, keepdim=True) + self.epsilon)
        torch.mul(both[1] * scale, self.weight, out=both[0])
        return both[0], both[1]
