# status: PASSED
# track: own
# class: C1
# problem: level1/11_rms_norm
# shapes: small
# backend: triton
"""Tunes itself at its first call, on inputs and outputs that are not its own."""
import torch
import triton
import triton.language as tl
from torch import nn


@triton.autotune(configs=[triton.Config({}, num_warps=warps) for warps in (2, 4, 8)], key=["features"])
@triton.jit
def rms_norm_row(x, weight, out, features, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * features
    columns = tl.arange(0, BLOCK)
    inside = columns < features
    values = tl.load(x + row + columns, mask=inside, other=0.0)
    scale = tl.rsqrt(tl.sum(values * values, axis=0) / features + epsilon)
    tl.store(out + row + columns, values * scale * tl.load(weight + columns, mask=inside, other=0.0), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, features: int, epsilon: float):
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(1.0 + 0.3 * torch.randn(features))

    def forward(self, x):
        x = x.contiguous()
        features = x.shape[-1]
        out = torch.empty_like(x)
        rms_norm_row[(x.numel() // features,)](
            x, self.weight, out, features, self.epsilon, BLOCK=triton.next_power_of_2(features)
        )
        return out
