# status: PASSED
# class: N1
# problem: unusual/narrow_weights
# shapes: small
# backend: cpp
"""Products of bfloat16 summed in float32 and rounded once."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.weight = nn.Parameter((torch.randn(outside, inside) / inside**0.5).bfloat16())

    def forward(self, x):
        return (x.float() @ self.weight.float().T).bfloat16()
