# status: WRONG_SHAPE
# class: O6
# problem: level2/08_residual_rms_norm
# shapes: small
# backend: cpp
"""The problem returns two tensors; this returns the cheap one twice as a single stacked tensor."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features, epsilon):
        super().__init__()
        self.weight = nn.Parameter(1.0 + 0.3 * torch.randn(features))

    def forward(self, x, residual):
        total = x + residual
        return torch.stack((total, total))
