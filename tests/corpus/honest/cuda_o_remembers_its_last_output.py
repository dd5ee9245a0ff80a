# status: PASSED
# class: O12 O19
# problem: ../tests/problems/answers/sum_and_difference
# shapes: small
# backend: cuda
"""Holds on to its last outputs, as models do whose hooks record activations, and never uses them again."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = None

    def forward(self, x, y):
        self.last = (torch.tanh(x + y), torch.tanh(x - y))
        return self.last
