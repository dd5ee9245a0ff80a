"""One decoding step in which all sequences share a long prompt and differ in a short tail, in bfloat16.

The shared part is one matrix product over all sequences' queries; expanding the prompt reads it once per
sequence.
"""

import math

import torch
from torch import nn

BATCH = 64
HEADS = 8
PREFIX = 2048
TAIL = 256
HEAD_FEATURES = 128

SHAPES = {
    "small": {"BATCH": 8, "HEADS": 2, "PREFIX": 96, "TAIL": 32, "HEAD_FEATURES": 64},
    "odd": {"BATCH": 7, "HEADS": 3, "PREFIX": 83, "TAIL": 19, "HEAD_FEATURES": 40},
}


class Model(nn.Module):
    def forward(self, query: torch.Tensor, prefix: torch.Tensor, tail: torch.Tensor) -> torch.Tensor:
        """Keys, then values: prefix [2, heads, PREFIX, features], tail [2, batch, heads, TAIL, features]."""
        shared, split = query.transpose(0, 1), prefix.shape[-2]
        scale = 1.0 / math.sqrt(query.shape[-1])
        whole = (shared @ prefix[0].transpose(-2, -1)).float().transpose(0, 1) * scale
        own = (query[..., None, :] @ tail[0].transpose(-2, -1)).float()[..., 0, :] * scale
        weights = torch.softmax(torch.cat([whole, own], dim=-1), dim=-1).to(query.dtype)
        first = (weights[..., :split].transpose(0, 1) @ prefix[1]).transpose(0, 1)
        return first + (weights[..., None, split:] @ tail[1])[..., 0, :]


def get_inputs():
    query = 2.0 * torch.randn(BATCH, HEADS, HEAD_FEATURES)
    prefix = torch.randn(2, HEADS, PREFIX, HEAD_FEATURES)
    tail = torch.randn(2, BATCH, HEADS, TAIL, HEAD_FEATURES)
    return [query.bfloat16(), prefix.bfloat16(), tail.bfloat16()]


def get_init_inputs():
    return []
