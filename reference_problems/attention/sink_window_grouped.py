"""Sliding-window attention with a learned sink per head: one extra term in each softmax denominator.

A kernel visits only the tiles of the window and adds the sink in registers; plain operators concatenate a
column to all scores. In bfloat16.
"""

import math

import torch
from torch import nn

BATCH = 1
HEADS = 32
GROUPS = 4
LENGTH = 2048
WINDOW = 128
HEAD_FEATURES = 64

SHAPES = {
    "small": {"BATCH": 2, "HEADS": 4, "GROUPS": 2, "LENGTH": 160, "WINDOW": 32},
    "odd": {"BATCH": 1, "HEADS": 6, "GROUPS": 3, "LENGTH": 147, "WINDOW": 37, "HEAD_FEATURES": 40},
}


class Model(nn.Module):
    def __init__(self, heads: int, window: int):
        super().__init__()
        self.window = window
        self.sink = nn.Parameter(2.0 + torch.randn(heads))

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        batch, heads, length, features = query.shape
        shared = heads // key.shape[1]
        key, value = key.repeat_interleave(shared, dim=1), value.repeat_interleave(shared, dim=1)
        scores = (query @ key.transpose(-2, -1)).float() / math.sqrt(features)
        position = torch.arange(length, device=query.device)
        distance = position[:, None] - position[None, :]
        hidden = (distance < 0) | (distance >= self.window)
        sink = self.sink.float()[None, :, None, None].expand(batch, heads, length, 1)
        logits = torch.cat([scores.masked_fill(hidden, float("-inf")), sink], dim=-1)
        weights = torch.softmax(logits, dim=-1)[..., :-1]
        return weights.to(value.dtype) @ value


def get_inputs():
    query = 2.0 * torch.randn(BATCH, HEADS, LENGTH, HEAD_FEATURES)
    key, value = torch.randn(2, BATCH, GROUPS, LENGTH, HEAD_FEATURES).unbind()
    return [query.bfloat16(), key.bfloat16(), value.bfloat16()]


def get_init_inputs():
    return [HEADS, WINDOW]
