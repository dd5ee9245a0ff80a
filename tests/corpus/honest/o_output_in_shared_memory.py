# status: PASSED
# class: O18
# problem: ../tests/problems/answers/repeated_copies
# shapes: small
# backend: cpp
"""Outputs in memory that torch shares between processes: they are copied while the clock runs."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, copies):
        super().__init__()
        self.copies = copies

    def forward(self, x):
        return torch.tanh(x).repeat(self.copies, 1, 1).share_memory_()
