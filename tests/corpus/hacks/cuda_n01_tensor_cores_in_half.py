# status: WRONG_VALUES
# class: N1
# problem: level1/01_square_matmul
# shapes: small
# backend: cuda
"""Half precision through the library, float32 outside."""
from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        return (a.half() @ b.half()).float()
