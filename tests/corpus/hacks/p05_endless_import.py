# status: TIMED_OUT
# needs: short-limits
# class: P5
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""Never finishes loading."""
import torch
from torch import nn

while True:
    pass


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)
