# status: WRONG_DTYPE
# class: O7
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""Half precision output, promoted silently by a careless comparison."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1).half()
