# status: PASSED
# class: N1
# problem: ../tests/problems/unusual/learned_vector_product
# shapes: small
# backend: cpp
"""Weights kept as 24 and 8 bits, put together again: nothing is lost."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, inner, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inner) / inner**0.5)
        self.parts = None

    def forward(self, x):
        if self.parts is None:
            bits = self.weight.detach().view(torch.int32)
            self.parts = bits.bitwise_and(-256), bits.bitwise_and(255).to(torch.uint8)
        high, low = self.parts
        return high.bitwise_or(low).view(torch.float32) @ x
