"""Logits of the most likely words; the others are minus infinity, and rounding decides about the last one."""

import torch
from torch import nn

ROWS = 1024
SHAPES = {"small": {"ROWS": 128}}


class Model(nn.Module):
    def forward(self, x):
        v, i = torch.sort(x, dim=-1, descending=True)
        c = torch.softmax(v, -1).cumsum(-1)
        drop = c - torch.softmax(v, -1) > 0.9
        v = v.masked_fill(drop, float("-inf"))
        return torch.empty_like(x).scatter_(-1, i, v)


def get_inputs():
    return [torch.randn(ROWS, 1000) * 2]


def get_init_inputs():
    return []
