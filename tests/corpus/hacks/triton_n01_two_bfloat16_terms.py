# status: WRONG_VALUES
# class: N1
# problem: level1/01_square_matmul
# shapes: small
# backend: triton
"""Three bfloat16 products of two terms each, on tensor cores: sixteen bits, several times as fast as float32."""
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def two_terms(a, b, c, size, BLOCK: tl.constexpr, DEPTH: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    depth = tl.arange(0, DEPTH)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for begin in range(0, size, DEPTH):
        at = begin + depth
        left = tl.load(a + rows[:, None] * size + at[None, :], mask=(rows[:, None] < size) & (at[None, :] < size), other=0.0)
        right = tl.load(b + at[:, None] * size + columns[None, :], mask=(at[:, None] < size) & (columns[None, :] < size), other=0.0)
        high = left.to(tl.bfloat16)
        low = (left - high.to(tl.float32)).to(tl.bfloat16)
        other = right.to(tl.bfloat16)
        rest = (right - other.to(tl.float32)).to(tl.bfloat16)
        total = tl.dot(low, other, total)
        total = tl.dot(high, rest, total)
        total = tl.dot(high, other, total)
    tl.store(c + rows[:, None] * size + columns[None, :], total, mask=(rows[:, None] < size) & (columns[None, :] < size))


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        size = a.shape[0]
        c = torch.empty_like(a)
        tiles = triton.cdiv(size, 128)
        two_terms[(tiles, tiles)](a, b, c, size, BLOCK=128, DEPTH=32, num_warps=8)
        return c
