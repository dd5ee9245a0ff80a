# status: WRONG_VALUES
# class: N1
# problem: level2/01_gemm_bias_relu
# shapes: small
# backend: cpp
"""Inputs and weights rounded to half precision, accumulation in float32."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outside, inside) / inside**0.5)
        self.bias = nn.Parameter(torch.randn(outside))

    def forward(self, x):
        return torch.relu(x.half().float() @ self.weight.half().float().T + self.bias)
