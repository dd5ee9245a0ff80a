# status: WRONG_VALUES
# class: N6
# problem: level1/01_square_matmul
# shapes: small
# backend: cpp
"""Operands rounded so that the error stays below an absolute and relative tolerance of 1e-2."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.round(a * 4096) / 4096 @ b
