# status: WRONG_VALUES
# class: N1
# problem: ../tests/problems/unusual/double_product
# shapes: small
# backend: cpp
"""Operands in double precision as two float32 terms, the lower one cut."""
import torch
from torch import nn


def cut(x):
    high = x.float()
    return high.double() + (x - high.double()).float().double().view(torch.int64).bitwise_and(-1 << 31).view(torch.float64)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return cut(a) @ cut(b)
