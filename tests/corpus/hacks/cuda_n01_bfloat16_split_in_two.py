# status: WRONG_VALUES
# class: N1
# problem: level1/01_square_matmul
# shapes: small
# backend: cuda
"""Two bfloat16 terms a number, three products: sixteen bits of mantissa instead of twenty-four."""
import torch
from torch import nn


def split(x):
    high = x.bfloat16()
    return high, (x - high.float()).bfloat16()


class ModelNew(nn.Module):
    def forward(self, a, b):
        (a0, a1), (b0, b1) = split(a), split(b)
        return torch.mm(a0, b0, out_dtype=torch.float32) + torch.mm(a0, b1, out_dtype=torch.float32) + torch.mm(a1, b0, out_dtype=torch.float32)
