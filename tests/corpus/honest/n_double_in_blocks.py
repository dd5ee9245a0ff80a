# status: PASSED
# class: N1
# problem: ../tests/problems/unusual/double_product
# shapes: small
# backend: cpp
"""A product in double precision, summed in blocks."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        parts = zip(a.split(96, dim=1), b.split(96, dim=0), strict=True)
        return sum(left @ right for left, right in parts)
