"""Rotary position embedding of queries and keys by given angles: pairs half a head apart are rotated.

Two outputs share the sine and cosine of one small table, which eager code expands and reads again and again.
"""

import torch
from torch import nn

BATCH = 8
HEADS = 16
LENGTH = 2048
HEAD_FEATURES = 128

SHAPES = {
    "small": {"BATCH": 4, "HEADS": 8, "LENGTH": 384, "HEAD_FEATURES": 64},
    "odd": {"BATCH": 3, "HEADS": 7, "LENGTH": 347, "HEAD_FEATURES": 54},
}


def rotate(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)


class Model(nn.Module):
    def forward(
        self, query: torch.Tensor, key: torch.Tensor, angles: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        cosine, sine = angles.cos(), angles.sin()
        return rotate(query, cosine, sine), rotate(key, cosine, sine)


def get_inputs():
    shape = (BATCH, HEADS, LENGTH, HEAD_FEATURES)
    return [torch.randn(shape), torch.randn(shape), 6.0 * torch.rand(LENGTH, HEAD_FEATURES // 2)]


def get_init_inputs():
    return []
