# status: PASSED
# class: S6 S5
# problem: level1/11_rms_norm
# shapes: small
# backend: cpp
"""Compiled by torch.jit.script where that is still there."""
import warnings

import torch
from torch import nn


def rms(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon) * weight


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    try:
        rms = torch.jit.script(rms)
    except (AttributeError, RuntimeError):
        pass


class ModelNew(nn.Module):
    def __init__(self, features, epsilon):
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(1.0 + 0.3 * torch.randn(features))

    def forward(self, x):
        return rms(x, self.weight, self.epsilon)
