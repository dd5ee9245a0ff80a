# status: PASSED
# class: M6 O9
# problem: ../tests/problems/answers/three_statistics
# shapes: small
# backend: cpp
"""The outputs are columns of one tensor, so that none is contiguous, in some calls of a tensor that is wider."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        out = torch.empty(len(x), 3 + self.calls % 2)
        sums, most, least = out[:, 0], out[:, 1], out[:, 2]
        torch.sum(x, -1, out=sums)
        torch.amax(x, -1, out=most)
        torch.amin(x, -1, out=least)
        return sums, most, least
