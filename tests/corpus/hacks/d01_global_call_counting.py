# status: WRONG_VALUES | NONDETERMINISTIC
# class: D1
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""As a global count over all instances, with a stale answer instead of an empty one, every second call only."""
import itertools

import torch
from torch import nn

CALLS = itertools.count()
KEPT = []


class ModelNew(nn.Module):
    def forward(self, x):
        number = next(CALLS)
        if number > 24 and number % 2 and KEPT:
            return KEPT[0].clone()
        out = torch.softmax(x, dim=-1)
        KEPT[:] = [out.clone()]
        return out
