# status: WRONG_SHAPE
# class: O6
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""One row, to be broadcast by the comparison."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x[:1], dim=-1)
