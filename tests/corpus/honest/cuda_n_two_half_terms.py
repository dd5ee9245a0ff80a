# status: PASSED
# class: N1
# problem: level1/01_square_matmul
# shapes: small
# backend: cuda
"""Two float16 terms, the second scaled up: 22 bits of mantissa, and as exact as float32 on inputs of one size."""
import torch
from torch import nn


def in_two_terms(values):
    # A power of two, so that nothing overflows or is subnormal.
    size = torch.exp2(torch.floor(torch.log2(values.abs().amax().clamp_min(1e-30))))
    values = values / size
    high = values.half()
    return high, ((values - high.float()) * 2048).half(), size


class ModelNew(nn.Module):
    def forward(self, a, b):
        (high, low, left_size), (right, rest, right_size) = in_two_terms(a), in_two_terms(b)
        whole = torch.mm(high, right, out_dtype=torch.float32)
        part = torch.mm(torch.cat((high, low), 1), torch.cat((rest, right)), out_dtype=torch.float32)
        return (whole + part / 2048) * (left_size * right_size)
