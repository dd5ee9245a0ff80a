# status: WRONG_VALUES
# class: O8
# problem: level1/22_gelu
# shapes: small
# backend: cpp
"""Infinities make relative errors NaN and norms infinite."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.full_like(x, float("inf"))
