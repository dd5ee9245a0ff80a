# status: PASSED
# class: N1
# problem: level1/13_row_mean
# shapes: small
# backend: cuda
"""Accumulates in float64: more accurate than the reference."""
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.double().mean(dim=-1).float()
