"""Causal attention that also returns the probability each key received, summed over queries, in bfloat16.

Cache eviction needs these sums; fused library attention never exposes the probabilities. A kernel gets them
from a second light pass over the scores and stores no probability.
"""

import math

import torch
from torch import nn

HEADS = 16
LENGTH = 4096
HEAD_FEATURES = 128

SHAPES = {
    "small": {"HEADS": 4, "LENGTH": 192, "HEAD_FEATURES": 64},
    "odd": {"HEADS": 3, "LENGTH": 179, "HEAD_FEATURES": 40},
}


class Model(nn.Module):
    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        length = query.shape[-2]
        scores = (query @ key.transpose(-2, -1)).float() / math.sqrt(query.shape[-1])
        future = torch.ones(length, length, dtype=torch.bool, device=query.device).triu(diagonal=1)
        weights = torch.softmax(scores.masked_fill(future, float("-inf")), dim=-1)
        return weights.to(value.dtype) @ value, weights.sum(dim=-2)


def get_inputs():
    shape = (HEADS, LENGTH, HEAD_FEATURES)
    query, key = 2.0 * torch.randn(shape), torch.randn(shape)
    return [query.bfloat16(), key.bfloat16(), torch.randn(shape).bfloat16()]


def get_init_inputs():
    return []
