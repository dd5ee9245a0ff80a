# status: WRONG_VALUES
# class: O8
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""A single NaN among zeros turns a maximum or a mean of errors into NaN."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.zeros_like(x)
        out[0, 0] = float("nan")
        return out
