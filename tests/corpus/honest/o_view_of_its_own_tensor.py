# status: PASSED
# class: O9 O12
# problem: level1/01_square_matmul
# shapes: small
# backend: cpp
"""Returns a transposed, non-contiguous view of a fresh tensor: right values, unusual strides."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        return (b.T @ a.T).T
