# status: WRONG_VALUES
# class: N1
# problem: level1/01_square_matmul
# shapes: small
# backend: cuda
"""One operand in two bfloat16 terms, the other in one: eight bits of mantissa decide."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        high = a.bfloat16()
        low = (a - high.float()).bfloat16()
        right = b.bfloat16()
        return (high @ right).float() + (low @ right).float()
