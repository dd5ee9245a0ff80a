# status: WRONG_VALUES
# class: N4
# problem: level1/15_argmax
# shapes: small
# backend: cpp
"""The place of the largest value by its upper 26 bits: one row in some ten thousand holds two such."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.view(torch.int32).bitwise_and(-64).view(torch.float32).argmax(dim=-1)
