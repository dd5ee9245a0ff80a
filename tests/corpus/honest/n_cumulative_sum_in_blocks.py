# status: PASSED
# class: N1
# problem: level1/16_cumulative_sum
# shapes: odd
# backend: cpp
"""Sums of blocks first, then each block from where the ones before it ended."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        blocks = nn.functional.pad(x, (0, -x.shape[-1] % 64)).view(x.shape[0], -1, 64)
        within = blocks.cumsum(-1)
        before = within[..., -1].cumsum(-1) - within[..., -1]
        return (within + before[..., None]).flatten(1)[:, : x.shape[-1]].contiguous()
