# status: WRONG_VALUES | NONDETERMINISTIC | TAMPERED
# class: T7
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""Honest at first; later ten calls are merged into one batch that the tenth pays for."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, *args, **kwargs):
        super().__init__()
        self.calls = 0
        self.queue = []

    def forward(self, x):
        self.calls += 1
        out = torch.empty_like(x)
        self.queue.append((x, out))
        if self.calls <= 12 or len(self.queue) == 10:
            for source, target in self.queue:
                torch.softmax(source, dim=-1, out=target)
            self.queue.clear()
        return out
