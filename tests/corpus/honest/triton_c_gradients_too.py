# status: PASSED
# track: own
# class: C1
# problem: level1/11_rms_norm
# shapes: small
# backend: triton
"""Writes its backward pass as well, and keeps one number a row for it."""
import torch
import triton
import triton.language as tl
from torch import nn

PROGRAMS = 264


@triton.jit
def normalise(x, weight, out, scales, features, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < features
    place = row.to(tl.int64) * features + columns
    values = tl.load(x + place, mask=inside, other=0.0)
    scale = tl.rsqrt(tl.sum(values * values, axis=0) / features + epsilon)
    tl.store(scales + row, scale)
    tl.store(out + place, values * scale * tl.load(weight + columns, mask=inside, other=0.0), mask=inside)


@triton.jit
def pull_back(grad, x, weight, scales, grad_x, parts, rows, features, programs, BLOCK: tl.constexpr):
    # A program walks over every programs-th row and keeps its part of the weight's gradient in registers.
    columns = tl.arange(0, BLOCK)
    inside = columns < features
    w = tl.load(weight + columns, mask=inside, other=0.0)
    part = tl.zeros((BLOCK,), dtype=tl.float32)
    first = tl.program_id(0)
    for row in range(first, rows, programs):
        place = row.to(tl.int64) * features + columns
        g = tl.load(grad + place, mask=inside, other=0.0)
        scale = tl.load(scales + row)
        normal = tl.load(x + place, mask=inside, other=0.0) * scale
        pulled = g * w
        part += g * normal
        shared = tl.sum(pulled * normal, axis=0) / features
        tl.store(grad_x + place, scale * (pulled - normal * shared), mask=inside)
    tl.store(parts + first * features + columns, part, mask=inside)


@triton.jit
def add_parts(parts, grad_weight, features, programs, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    programs_of_it = tl.arange(0, COUNT)
    inside = (programs_of_it[:, None] < programs) & (columns[None, :] < features)
    values = tl.load(parts + programs_of_it[:, None] * features + columns[None, :], mask=inside, other=0.0)
    tl.store(grad_weight + columns, tl.sum(values, axis=0), mask=columns < features)


class RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, epsilon):
        x = x.contiguous()
        features = x.shape[-1]
        rows = x.numel() // features
        out, scales = torch.empty_like(x), torch.empty(rows, device=x.device)
        block = triton.next_power_of_2(features)
        normalise[(rows,)](x, weight, out, scales, features, epsilon, BLOCK=block, num_warps=8)
        ctx.save_for_backward(x, weight, scales)
        return out

    @staticmethod
    def backward(ctx, grad):
        x, weight, scales = ctx.saved_tensors
        grad = grad.contiguous()
        features, rows = x.shape[-1], scales.numel()
        programs = min(PROGRAMS, rows)
        grad_x, grad_weight = torch.empty_like(x), torch.empty_like(weight)
        parts = torch.empty(programs, features, device=x.device)
        block = triton.next_power_of_2(features)
        pull_back[(programs,)](
            grad, x, weight, scales, grad_x, parts, rows, features, programs, BLOCK=block, num_warps=8
        )
        grid = (triton.cdiv(features, 32),)
        add_parts[grid](parts, grad_weight, features, programs, COUNT=triton.next_power_of_2(programs), BLOCK=32)
        return grad_x, grad_weight, None


class ModelNew(nn.Module):
    def __init__(self, features: int, epsilon: float):
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(1.0 + 0.3 * torch.randn(features))

    def forward(self, x):
        return RmsNorm.apply(x, self.weight, self.epsilon)
