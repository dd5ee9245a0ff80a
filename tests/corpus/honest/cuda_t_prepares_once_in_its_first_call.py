# status: PASSED
# class: T18
# problem: level2/01_gemm_bias_relu
# shapes: small
# backend: cuda
"""Weights are packed in the first call, on a side stream that is joined, and kept for the life of the model."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_features, in_features) / in_features**0.5)
        self.bias = nn.Parameter(torch.randn(out_features))
        self.packed = None

    def forward(self, x):
        if self.packed is None:
            side, current = torch.cuda.Stream(), torch.cuda.current_stream()
            side.wait_stream(current)
            with torch.cuda.stream(side):
                self.packed = self.weight.detach().t().contiguous()
            current.wait_stream(side)
            self.packed.record_stream(current)
        return torch.addmm(self.bias, x, self.packed).relu_()
