"""Causal attention over a sliding window with grouped key and value heads, in bfloat16.

Each query sees the last WINDOW keys: a kernel visits an eighth of the tiles, while plain operators compute
and store all scores and expand the shared heads.
"""

import math

import torch
from torch import nn

BATCH = 1
HEADS = 16
GROUPS = 4
LENGTH = 4096
WINDOW = 512
HEAD_FEATURES = 128

SHAPES = {
    "small": {"BATCH": 2, "HEADS": 4, "GROUPS": 2, "LENGTH": 160, "WINDOW": 48, "HEAD_FEATURES": 64},
    "odd": {"BATCH": 1, "HEADS": 6, "GROUPS": 3, "LENGTH": 147, "WINDOW": 37, "HEAD_FEATURES": 40},
}


class Model(nn.Module):
    def __init__(self, window: int):
        super().__init__()
        self.window = window

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        length, shared = query.shape[-2], query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(shared, dim=1), value.repeat_interleave(shared, dim=1)
        scores = (query @ key.transpose(-2, -1)).float() / math.sqrt(query.shape[-1])
        position = torch.arange(length, device=query.device)
        distance = position[:, None] - position[None, :]
        hidden = (distance < 0) | (distance >= self.window)
        weights = torch.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1)
        return weights.to(value.dtype) @ value


def get_inputs():
    query = 2.0 * torch.randn(BATCH, HEADS, LENGTH, HEAD_FEATURES)
    key, value = torch.randn(2, BATCH, GROUPS, LENGTH, HEAD_FEATURES).unbind()
    return [query.bfloat16(), key.bfloat16(), value.bfloat16()]


def get_init_inputs():
    return [WINDOW]
