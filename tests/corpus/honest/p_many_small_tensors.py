# status: PASSED
# class: P7
# problem: level3/05_gated_recurrence
# shapes: small
# backend: cpp
"""Thousands of short-lived tensors and some hundred megabytes kept: busy, within bounds."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.initial = nn.Parameter(2.0 * torch.randn(features))
        self.recurrent = nn.Parameter(torch.randn(features))
        self.bias = nn.Parameter(torch.randn(features))
        self.workspace = torch.zeros(64 << 20)

    def forward(self, x, gates):
        state = self.initial.expand(x.shape[0], -1)
        out = torch.empty_like(x)
        for step in range(x.shape[1]):
            keep = torch.sigmoid(gates[:, step] + self.recurrent * state + self.bias)
            state = torch.lerp(x[:, step], state, keep)
            out[:, step] = state
        return out
