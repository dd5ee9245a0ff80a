"""Attention restricted to a random set of 64 x 64 blocks, about an eighth of all, in bfloat16.

A kernel visits the chosen blocks; the masked form computes and stores every score. The diagonal is always
chosen.
"""

import math

import torch
from torch import nn

HEADS = 8
LENGTH = 4096
BLOCK = 64
KEPT = 0.12
HEAD_FEATURES = 128

SHAPES = {
    "small": {"HEADS": 2, "LENGTH": 256, "BLOCK": 32, "HEAD_FEATURES": 64, "KEPT": 0.3},
    "odd": {"HEADS": 3, "LENGTH": 187, "BLOCK": 17, "HEAD_FEATURES": 40, "KEPT": 0.3},
}


class Model(nn.Module):
    def __init__(self, block: int):
        super().__init__()
        self.block = block

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, chosen: torch.Tensor
    ) -> torch.Tensor:
        scores = (query @ key.transpose(-2, -1)).float() / math.sqrt(query.shape[-1])
        mask = chosen.repeat_interleave(self.block, dim=-2).repeat_interleave(self.block, dim=-1)
        weights = torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1)
        return weights.to(value.dtype) @ value


def get_inputs():
    """`chosen` [HEADS, blocks, blocks] is True where a block of scores counts."""
    query = 2.0 * torch.randn(HEADS, LENGTH, HEAD_FEATURES)
    key, value = torch.randn(2, HEADS, LENGTH, HEAD_FEATURES).unbind()
    blocks = LENGTH // BLOCK
    chosen = (torch.rand(HEADS, blocks, blocks) < KEPT) | torch.eye(blocks, dtype=torch.bool)
    return [query.bfloat16(), key.bfloat16(), value.bfloat16(), chosen]


def get_init_inputs():
    return [BLOCK]
