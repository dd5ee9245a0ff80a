# status: PASSED
# class: N3 N4
# problem: level1/09_softmax
# shapes: odd
# backend: cpp
"""Softmax with a running maximum and a rescaled sum, block by block, with powers of two."""
import torch
from torch import nn

LOG2E = 1.4426950408889634


class ModelNew(nn.Module):
    def forward(self, x):
        scaled = x * LOG2E
        top = torch.full((x.shape[0], 1), float("-inf"))
        total = torch.zeros(x.shape[0], 1)
        for block in scaled.split(256, dim=-1):
            higher = torch.maximum(top, block.amax(-1, keepdim=True))
            total = total * torch.exp2(top - higher) + torch.exp2(block - higher).sum(-1, keepdim=True)
            top = higher
        return torch.exp2(scaled - top) / total
