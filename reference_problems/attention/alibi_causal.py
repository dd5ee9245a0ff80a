"""Causal attention with a linear distance penalty per head (ALiBi), in bfloat16.

The bias depends on positions alone, so a fused kernel computes it in registers; written in plain operators,
scores and bias travel through memory and the masked half is computed.
"""

import math

import torch
from torch import nn

BATCH = 1
HEADS = 16
LENGTH = 4096
HEAD_FEATURES = 128

SHAPES = {
    "small": {"BATCH": 2, "HEADS": 4, "LENGTH": 160, "HEAD_FEATURES": 64},
    "odd": {"BATCH": 1, "HEADS": 3, "LENGTH": 147, "HEAD_FEATURES": 40},
}


class Model(nn.Module):
    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, slopes: torch.Tensor
    ) -> torch.Tensor:
        length = query.shape[-2]
        scores = (query @ key.transpose(-2, -1)).float() / math.sqrt(query.shape[-1])
        position = torch.arange(length, device=query.device)
        distance = position[:, None] - position[None, :]
        scores = scores - slopes[:, None, None] * distance
        weights = torch.softmax(scores.masked_fill(distance < 0, float("-inf")), dim=-1)
        return weights.to(value.dtype) @ value


def get_inputs():
    shape = (BATCH, HEADS, LENGTH, HEAD_FEATURES)
    query, key = 2.0 * torch.randn(shape), torch.randn(shape)
    slopes = 0.02 + 0.3 * torch.rand(HEADS)
    return [query.bfloat16(), key.bfloat16(), torch.randn(shape).bfloat16(), slopes]


def get_init_inputs():
    return []
