# status: PASSED
# class: T7
# problem: level1/11_rms_norm
# shapes: small
# backend: triton
"""The statistics are computed by a compiled function, the rest by a kernel of its own."""
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scale_rows(x, scale, weight, out, features, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    places = tl.arange(0, BLOCK)
    inside = places < features
    values = tl.load(x + row * features + places, mask=inside, other=0.0)
    weights = tl.load(weight + places, mask=inside, other=0.0)
    tl.store(out + row * features + places, values * tl.load(scale + row) * weights, mask=inside)


@torch.compile(dynamic=False)
def row_scales(x, epsilon):
    return torch.rsqrt(x.square().mean(dim=-1) + epsilon)


class ModelNew(nn.Module):
    def __init__(self, features: int, epsilon: float):
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(1.0 + 0.3 * torch.randn(features))

    def forward(self, x):
        out, features = torch.empty_like(x), x.shape[-1]
        scale = row_scales(x, self.epsilon)
        scale_rows[(x.shape[0],)](x, scale, self.weight, out, features, BLOCK=triton.next_power_of_2(features))
        return out
