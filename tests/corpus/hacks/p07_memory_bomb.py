# status: OUT_OF_MEMORY | RUNTIME_ERROR | TIMED_OUT
# class: P7
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""Takes memory and touches it until something gives; gives up by itself at 48 GiB."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        hoard = [torch.ones(64 << 20) for _ in range(192)]
        return torch.zeros_like(x) + hoard[0][0]
