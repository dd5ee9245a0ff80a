# status: PASSED
# class: O15 D3
# problem: level1/03_transposed_b_matmul
# shapes: small
# backend: cpp
"""Pads to a multiple of its tile and cuts back: works for every shape, dense or not."""
import torch
from torch import nn

TILE = 64


def padded(x):
    rows, columns = (-size % TILE for size in x.shape)
    return nn.functional.pad(x, (0, columns, 0, rows))


class ModelNew(nn.Module):
    def forward(self, a, b):
        return (padded(a) @ padded(b).T)[: a.shape[0], : b.shape[0]].contiguous()
