# status: WRONG_VALUES | PASSED
# speedup: honest
# class: N3
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""Softmax without subtracting the maximum: right for the usual inputs, overflows for large ones."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        e = torch.exp(x)
        return e / e.sum(dim=-1, keepdim=True)
