# status: PASSED
# class: C1 T18
# problem: level2/01_gemm_bias_relu
# shapes: small
# backend: cpp
"""Weights are packed lazily, keyed by their address and version counter."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outside, inside) / inside**0.5)
        self.bias = nn.Parameter(torch.randn(outside))
        self.cache = {}

    def forward(self, x):
        key = (self.weight.data_ptr(), self.weight._version)
        if key not in self.cache:
            self.cache = {key: self.weight.detach().T.contiguous()}
        return torch.relu(torch.addmm(self.bias, x, self.cache[key]))
