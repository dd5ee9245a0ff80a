# status: WRONG_VALUES
# class: O8
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""A comparison written as `error > limit` lets NaN pass."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.full_like(x, float("nan"))
