"""Causal attention written out in full: the scores are stored, masked, normalised and read again.

An online softmax needs none of that memory and can skip everything above the diagonal.
"""

import math

import torch
from torch import nn

BATCH = 2
HEADS = 12
LENGTH = 1536
HEAD_FEATURES = 64

SHAPES = {
    "small": {"BATCH": 2, "HEADS": 4, "LENGTH": 224, "HEAD_FEATURES": 32},
    "odd": {"BATCH": 1, "HEADS": 5, "LENGTH": 211, "HEAD_FEATURES": 37},
}


class Model(nn.Module):
    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        length = query.shape[-2]
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
        future = torch.ones(length, length, dtype=torch.bool, device=query.device).triu(diagonal=1)
        return torch.softmax(scores.masked_fill(future, float("-inf")), dim=-1) @ value


def get_inputs():
    shape = (BATCH, HEADS, LENGTH, HEAD_FEATURES)
    return [2.0 * torch.randn(shape), torch.randn(shape), torch.randn(shape)]


def get_init_inputs():
    return []
