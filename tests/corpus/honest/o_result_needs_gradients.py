# status: PASSED
# class: O10 D5
# problem: level2/01_gemm_bias_relu
# shapes: small
# backend: cpp
"""Turns gradients on inside: the output is attached to a graph."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outside, inside) / inside**0.5)
        self.bias = nn.Parameter(torch.randn(outside))

    @torch.enable_grad()
    def forward(self, x):
        return torch.relu(nn.functional.linear(x, self.weight, self.bias))
