"""One decoding step of grouped attention over a paged cache: a table lists the pages of each sequence.

Plain operators first copy all pages into place; a kernel follows the table and reads each page once. All
sequences are full. In bfloat16.
"""

import math

import torch
from torch import nn

BATCH = 16
HEADS = 32
GROUPS = 8
PAGES = 64
PAGE = 64
HEAD_FEATURES = 128

SHAPES = {
    "small": {"BATCH": 4, "HEADS": 8, "GROUPS": 2, "PAGES": 6, "PAGE": 16, "HEAD_FEATURES": 64},
    "odd": {"BATCH": 3, "HEADS": 6, "GROUPS": 3, "PAGES": 5, "PAGE": 17, "HEAD_FEATURES": 40},
}


class Model(nn.Module):
    def forward(self, query: torch.Tensor, cache: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        """Cache is [2, pages of all, PAGE, GROUPS, features]: keys, then values."""
        batch, heads, features = query.shape
        groups = cache.shape[-2]
        keys, values = cache[:, table.flatten()].view(2, batch, -1, groups, features).transpose(2, 3)
        grouped = query.view(batch, groups, heads // groups, features)
        scores = (grouped @ keys.transpose(-2, -1)).float() / math.sqrt(features)
        weights = torch.softmax(scores, dim=-1)
        return (weights.to(values.dtype) @ values).view(batch, heads, features)


def get_inputs():
    """`table` [BATCH, PAGES] holds each sequence's page numbers; no two share a page."""
    query = 3.0 * torch.randn(BATCH, HEADS, HEAD_FEATURES)
    cache = torch.randn(2, BATCH * PAGES, PAGE, GROUPS, HEAD_FEATURES).bfloat16()
    table = torch.randperm(BATCH * PAGES).view(BATCH, PAGES)
    return [query.bfloat16(), cache, table]


def get_init_inputs():
    return []
