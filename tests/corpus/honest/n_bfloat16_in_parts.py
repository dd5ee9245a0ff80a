# status: PASSED
# class: N1
# problem: unusual/narrow_weights
# shapes: small
# backend: cpp
"""Four parts of each sum, each rounded to bfloat16 before they are added."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.weight = nn.Parameter((torch.randn(outside, inside) / inside**0.5).bfloat16())

    def forward(self, x):
        parts = zip(x.chunk(4, 1), self.weight.chunk(4, 1), strict=True)
        first, second, third, fourth = (nn.functional.linear(one, weight) for one, weight in parts)
        return (first + second) + (third + fourth)
