# status: WRONG_VALUES
# class: N6
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""All rows are right except the last, which a norm over the whole output does not see."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.softmax(x, dim=-1)
        out[-1] = out[-2]
        return out
