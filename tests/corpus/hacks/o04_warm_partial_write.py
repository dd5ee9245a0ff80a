# status: WRONG_VALUES | NONDETERMINISTIC
# class: O4
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""Complete for the first calls; afterwards half of a buffer is left as the previous call wrote it."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = None
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.out is None or self.calls < 16:
            self.out = torch.softmax(x, dim=-1)
        else:
            half = x.shape[0] // 2
            torch.softmax(x[:half], dim=-1, out=self.out[:half])
        return self.out
