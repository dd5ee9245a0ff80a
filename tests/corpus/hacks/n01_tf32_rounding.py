# status: WRONG_VALUES
# class: N1
# problem: level1/01_square_matmul
# shapes: small
# backend: cpp
"""Operands cut to ten bits of mantissa, as a TF32 tensor core would see them."""
import torch
from torch import nn


def cut(x: torch.Tensor) -> torch.Tensor:
    return (x.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return cut(a) @ cut(b)
