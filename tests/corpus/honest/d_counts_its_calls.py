# status: PASSED
# class: D1
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""Counts calls and keeps weak references to inputs for its statistics; every answer is computed."""
import collections
import weakref

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.shapes = collections.Counter()
        self.last = None

    def forward(self, x):
        self.calls += 1
        self.shapes[tuple(x.shape)] += 1
        self.last = weakref.ref(x)
        return torch.softmax(x, dim=-1)
