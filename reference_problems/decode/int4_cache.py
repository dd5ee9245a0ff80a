"""One decoding step of grouped attention over a cache of 4-bit codes, scale and offset per 64 features.

A kernel reads half a byte a value and widens it in registers; plain operators write the widened cache and
read it again.
"""

import math

import torch
from torch import nn

BATCH = 8
HEADS = 32
GROUPS = 8
LENGTH = 4096
HEAD_FEATURES = 128
SHARED = 64

SHAPES = {
    "small": {"BATCH": 2, "HEADS": 8, "GROUPS": 2, "LENGTH": 96, "HEAD_FEATURES": 64, "SHARED": 32},
    "odd": {"BATCH": 1, "HEADS": 6, "GROUPS": 3, "LENGTH": 83, "HEAD_FEATURES": 48, "SHARED": 16},
}


class Model(nn.Module):
    def __init__(self, shared: int):
        super().__init__()
        self.shared = shared

    def forward(
        self, query: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor, offsets: torch.Tensor
    ) -> torch.Tensor:
        batch, heads, features = query.shape
        groups = codes.shape[2]
        keys, values = self._widened(codes, scales, offsets)
        grouped = query.view(batch, groups, heads // groups, features)
        scores = (grouped @ keys.transpose(-2, -1)).float() / math.sqrt(features)
        weights = torch.softmax(scores, dim=-1)
        return (weights.to(values.dtype) @ values).view(batch, heads, features)

    def _widened(self, codes: torch.Tensor, scales: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        """Low halves of bytes hold even features, high halves odd ones."""
        pairs = torch.stack([codes & 15, codes >> 4], dim=-1).flatten(-2).to(scales.dtype)
        shared = pairs.unflatten(-1, (-1, self.shared))
        return (shared * scales[..., None] + offsets[..., None]).flatten(-2)


def get_inputs():
    """`codes` [2, batch, groups, length, features / 2] packs keys and values, two codes a byte."""
    query = 2.0 * torch.randn(BATCH, HEADS, HEAD_FEATURES)
    places = (2, BATCH, GROUPS, LENGTH)
    codes = torch.randint(0, 256, (*places, HEAD_FEATURES // 2), dtype=torch.uint8)
    scales = 0.1 + 0.2 * torch.rand(*places, HEAD_FEATURES // SHARED)
    offsets = -1.5 - torch.rand(*places, HEAD_FEATURES // SHARED)
    return [query.bfloat16(), codes, scales.bfloat16(), offsets.bfloat16()]


def get_init_inputs():
    return [SHARED]
