# status: PASSED
# class: T7
# problem: level1/11_rms_norm
# shapes: small
# backend: triton
"""The second kernel is launched programmatically dependent on the first and waits for it on the device."""
import torch
import triton
import triton.language as tl
from torch import nn
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def row_scales(x, scale, features, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    places = tl.arange(0, BLOCK)
    values = tl.load(x + row * features + places, mask=places < features, other=0.0)
    tl.store(scale + row, tl.rsqrt(tl.sum(values * values, axis=0) / features + epsilon))
    gdc_launch_dependents()


@triton.jit
def scale_rows(x, scale, weight, out, features, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    places = tl.arange(0, BLOCK)
    inside = places < features
    gdc_wait()
    values = tl.load(x + row * features + places, mask=inside, other=0.0)
    weights = tl.load(weight + places, mask=inside, other=0.0)
    tl.store(out + row * features + places, values * tl.load(scale + row) * weights, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, features: int, epsilon: float):
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(1.0 + 0.3 * torch.randn(features))

    def forward(self, x):
        rows, features = x.shape
        out, scale = torch.empty_like(x), torch.empty(rows, device=x.device)
        block = triton.next_power_of_2(features)
        row_scales[(rows,)](x, scale, features, self.epsilon, BLOCK=block)
        scale_rows[(rows,)](x, scale, self.weight, out, features, BLOCK=block, launch_pdl=True)
        return out
