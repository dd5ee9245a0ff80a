"""One decoding step of grouped attention over caches of different lengths, in bfloat16.

Caches are padded to the longest; lengths are drawn anew for each call and fill about a quarter. A kernel
stops at each sequence's length, the masked form reads and multiplies the padding as well.
"""

import math

import torch
from torch import nn

BATCH = 32
HEADS = 32
GROUPS = 8
LENGTH = 4096
HEAD_FEATURES = 128

SHAPES = {
    "small": {"BATCH": 8, "HEADS": 8, "GROUPS": 2, "LENGTH": 192, "HEAD_FEATURES": 64},
    "odd": {"BATCH": 7, "HEADS": 6, "GROUPS": 3, "LENGTH": 147, "HEAD_FEATURES": 40},
}


class Model(nn.Module):
    def forward(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, lengths: torch.Tensor
    ) -> torch.Tensor:
        batch, heads, features = query.shape
        groups, length = keys.shape[1:3]
        grouped = query.view(batch, groups, heads // groups, features)
        scores = (grouped @ keys.transpose(-2, -1)).float() / math.sqrt(features)
        beyond = torch.arange(length, device=query.device) >= lengths[:, None]
        weights = torch.softmax(scores.masked_fill(beyond[:, None, None], float("-inf")), dim=-1)
        return (weights.to(values.dtype) @ values).view(batch, heads, features)


def get_inputs():
    """`lengths` [BATCH] counts the valid places of each cache, at least one."""
    query = 2.0 * torch.randn(BATCH, HEADS, HEAD_FEATURES)
    keys, values = torch.randn(2, BATCH, GROUPS, LENGTH, HEAD_FEATURES).bfloat16().unbind()
    lengths = 1 + (LENGTH * torch.rand(BATCH).square() * 0.75).long()
    return [query.bfloat16(), keys, values, lengths]


def get_init_inputs():
    return []
