# status: WRONG_VALUES
# class: N7
# problem: level2/01_gemm_bias_relu
# shapes: small
# backend: cpp
"""The bias is left out."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outside, inside) / inside**0.5)
        self.bias = nn.Parameter(torch.randn(outside))

    def forward(self, x):
        return torch.relu(x @ self.weight.T)
