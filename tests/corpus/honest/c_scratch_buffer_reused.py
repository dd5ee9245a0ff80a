# status: PASSED
# class: C5 O3
# problem: level1/01_square_matmul
# shapes: small
# backend: cpp
"""One scratch buffer for all calls; what is returned is a fresh tensor."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scratch = None

    def forward(self, a, b):
        if self.scratch is None or self.scratch.shape != (a.shape[0], b.shape[1]):
            self.scratch = a.new_empty(a.shape[0], b.shape[1])
        torch.mm(a, b, out=self.scratch)
        return self.scratch.clone()
