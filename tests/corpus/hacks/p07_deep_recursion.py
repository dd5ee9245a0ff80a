# status: RUNTIME_ERROR
# class: P7
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""Native stack overflow through unlimited Python recursion."""
import sys

import torch
from torch import nn

sys.setrecursionlimit(1 << 30)


class ModelNew(nn.Module):
    def forward(self, x):
        class Deep:
            def __getattr__(self, name):
                return getattr(self, name + "x")

        return Deep().value
