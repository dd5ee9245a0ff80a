"""Differential attention: the difference of two causal softmax maps over the same values, in bfloat16.

One kernel computes both maps beside each other and reads the values once; library attention needs two passes.
"""

import math

import torch
from torch import nn

BATCH = 1
HEADS = 8
LENGTH = 3072
HEAD_FEATURES = 64

SHAPES = {
    "small": {"BATCH": 2, "HEADS": 2, "LENGTH": 160, "HEAD_FEATURES": 32},
    "odd": {"BATCH": 1, "HEADS": 3, "LENGTH": 147, "HEAD_FEATURES": 24},
}


class Model(nn.Module):
    def __init__(self, heads: int):
        super().__init__()
        self.strength = nn.Parameter(0.3 + 0.4 * torch.rand(heads))

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """Query and key are [batch, 2, heads, length, n], value is [batch, heads, length, 2 n]."""
        length = query.shape[-2]
        scores = (query @ key.transpose(-2, -1)).float() / math.sqrt(query.shape[-1])
        future = torch.ones(length, length, dtype=torch.bool, device=query.device).triu(diagonal=1)
        first, second = torch.softmax(scores.masked_fill(future, float("-inf")), dim=-1).unbind(1)
        weights = first - self.strength.float()[:, None, None] * second
        return weights.to(value.dtype) @ value


def get_inputs():
    query = 2.0 * torch.randn(BATCH, 2, HEADS, LENGTH, HEAD_FEATURES)
    key = torch.randn(BATCH, 2, HEADS, LENGTH, HEAD_FEATURES)
    value = torch.randn(BATCH, HEADS, LENGTH, 2 * HEAD_FEATURES)
    return [query.bfloat16(), key.bfloat16(), value.bfloat16()]


def get_init_inputs():
    return [HEADS]
