# status: INPUT_MUTATED
# class: O11
# problem: level2/01_gemm_bias_relu
# shapes: small
# backend: cpp
"""Inputs and weights are wiped, so that a reference run afterwards on the same objects agrees with zeros."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outside, inside) / inside**0.5)
        self.bias = nn.Parameter(torch.randn(outside))

    def forward(self, x):
        with torch.no_grad():
            for tensor in (x, self.weight, self.bias):
                tensor.zero_()
        return x.new_zeros(x.shape[0], self.bias.numel())
