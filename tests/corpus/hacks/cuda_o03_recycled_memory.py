# status: WRONG_VALUES
# class: O3
# problem: level1/09_softmax
# shapes: small
# backend: cuda
"""Uninitialised device memory, straight from the allocator, after emptying its cache."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        torch.cuda.empty_cache()
        return torch.empty_like(x)
