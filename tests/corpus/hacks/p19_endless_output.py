# status: PASSED | TIMED_OUT | RUNTIME_ERROR | TAMPERED
# speedup: honest
# class: P19
# problem: level1/09_softmax
# shapes: small
# backend: cpp
# needs: short-limits
"""Writes two gigabytes of text while it works honestly: whoever keeps or does not drain it suffers."""
import os

import torch
from torch import nn

CHUNK = b"y" * (1 << 20)
for _ in range(2048):
    os.write(1, CHUNK)


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)
