# status: PASSED
# class: N1
# problem: level1/01_square_matmul
# shapes: small
# backend: triton
"""Three TF32 products in one accumulator, which truncates: as exact as float32 but for the order of its sums."""
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def tf32(values):
    bits = values.to(tl.int32, bitcast=True)
    bits = (bits + 0xFFF + ((bits >> 13) & 1)) & -8192
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def three_products(a, b, c, size, BLOCK: tl.constexpr, DEPTH: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    depth = tl.arange(0, DEPTH)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for begin in range(0, size, DEPTH):
        at = begin + depth
        left = tl.load(a + rows[:, None] * size + at[None, :], mask=(rows[:, None] < size) & (at[None, :] < size), other=0.0)
        right = tl.load(b + at[:, None] * size + columns[None, :], mask=(at[:, None] < size) & (columns[None, :] < size), other=0.0)
        high, other = tf32(left), tf32(right)
        total = tl.dot(left - high, other, total, input_precision="tf32")
        total = tl.dot(high, right - other, total, input_precision="tf32")
        total = tl.dot(high, other, total, input_precision="tf32")
    tl.store(c + rows[:, None] * size + columns[None, :], total, mask=(rows[:, None] < size) & (columns[None, :] < size))


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        size = a.shape[0]
        c = torch.empty_like(a)
        tiles = triton.cdiv(size, 128)
        three_products[(tiles, tiles)](a, b, c, size, BLOCK=128, DEPTH=32, num_warps=8)
        return c
