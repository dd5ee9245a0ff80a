# status: PASSED
# class: R2 N7
# problem: level2/01_gemm_bias_relu
# shapes: small
# backend: cpp
"""Parameters under other names, drawn in the same order."""
import math

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.w = nn.Parameter(torch.randn(b, a) / math.sqrt(a))
        self.shift = nn.Parameter(torch.randn(b))

    def forward(self, x):
        return nn.functional.linear(x, self.w, self.shift).clamp_min(0)
