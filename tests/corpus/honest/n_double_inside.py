# status: PASSED
# class: N1
# problem: level1/01_square_matmul
# shapes: small
# backend: cpp
"""More accurate than the reference: float64 inside."""
from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        return (a.double() @ b.double()).float()
