# status: PASSED
# class: T17 M4
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""Lowers torch's threads for a serial section and puts the number back."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            top = x[:1].amax()
        finally:
            torch.set_num_threads(threads)
        return torch.softmax(x - top, dim=-1)
