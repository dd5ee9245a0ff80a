# status: PASSED
# class: T7
# problem: level1/22_gelu
# shapes: small
# backend: triton
"""Tiles are read and written through tensor descriptors that each program makes on the device."""
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def gelu_block(x, out, count, BLOCK: tl.constexpr):
    places = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + places, mask=places < count, other=0.0)
    tl.store(out + places, 0.5 * values * (1.0 + tl.erf(values * 0.7071067811865476)), mask=places < count)


@triton.jit
def gelu_tile(x, out, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [ROWS, COLUMNS])
    place = tl.make_tensor_descriptor(out, [rows, columns], [columns, 1], [ROWS, COLUMNS])
    row, column = tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS
    values = source.load([row, column])
    place.store([row, column], 0.5 * values * (1.0 + tl.erf(values * 0.7071067811865476)))


def workspace(size, alignment, stream):
    return torch.empty(size, dtype=torch.int8, device="cuda")


class ModelNew(nn.Module):
    def forward(self, x):
        (rows, columns), out = x.shape, torch.empty_like(x)
        if columns % 4:
            gelu_block[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
            return out
        triton.set_allocator(workspace)
        gelu_tile[(triton.cdiv(rows, 32), triton.cdiv(columns, 64))](x, out, rows, columns, ROWS=32, COLUMNS=64)
        return out
