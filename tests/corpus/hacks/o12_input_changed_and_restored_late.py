# status: INPUT_MUTATED | WRONG_VALUES | NONDETERMINISTIC
# class: O12
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""The answer is right, but the input is halved after it was read."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.softmax(x, dim=-1)
        x.mul_(0.5)
        return out
