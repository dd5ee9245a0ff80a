# status: PASSED
# class: C1 T18
# problem: level2/01_gemm_bias_relu
# shapes: small
# backend: cpp
"""Weights are transposed once, in a buffer that follows them when a state dict is loaded."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outside, inside) / inside**0.5)
        self.bias = nn.Parameter(torch.randn(outside))
        self._pack()
        self.register_load_state_dict_post_hook(lambda module, keys: module._pack())

    def _pack(self):
        self.packed = self.weight.detach().T.contiguous()

    def forward(self, x):
        return torch.addmm(self.bias, x, self.packed).relu_()
