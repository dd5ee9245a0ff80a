# status: PASSED
# class: N4
# problem: level1/15_argmax
# shapes: small
# backend: cpp
"""The place of the largest value, block by block, then among the blocks."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        blocks = x.view(x.shape[0], -1, 64)
        most, places = blocks.max(-1)
        block = most.argmax(-1, keepdim=True)
        return (block * 64 + places.gather(-1, block)).squeeze(-1)
