# status: PASSED
# speedup: honest
# track: library
# baselines: eager compile
# class: S2
# problem: level1/11_rms_norm
# shapes: small
# backend: triton
"""Wraps torch.compile: Triton kernels run, but a compiler wrote them."""
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def rms_norm(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)


@torch.compile
def _normalised(x, weight, epsilon):
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + epsilon) * weight


class ModelNew(nn.Module):
    def __init__(self, features: int, epsilon: float):
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(1.0 + 0.3 * torch.randn(features))

    def forward(self, x):
        return _normalised(x, self.weight, self.epsilon)
