# status: PASSED
# class: T13 T18
# problem: level2/07_swiglu_mlp
# shapes: small
# backend: cpp
"""The first call is slow: it packs weights, warms the allocator and takes a nap of a tenth of a second."""
import time

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.gate = nn.Parameter(torch.randn(hidden, features) / features**0.5)
        self.up = nn.Parameter(torch.randn(hidden, features) / features**0.5)
        self.down = nn.Parameter(torch.randn(features, hidden) / hidden**0.5)
        self.ready = False

    def forward(self, x):
        if not self.ready:
            time.sleep(0.1)
            torch.empty(1 << 20).fill_(0)
            self.ready = True
        gate = nn.functional.silu(nn.functional.linear(x, self.gate))
        return nn.functional.linear(gate * nn.functional.linear(x, self.up), self.down)
