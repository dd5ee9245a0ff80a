"""Attention scores before the softmax, those of padded keys filled with a large constant."""

import torch
from torch import nn

HEADS = 4
LENGTH = 192
WIDTH = 64

SHAPES = {"small": {"LENGTH": 96}}


class Model(nn.Module):
    def forward(self, queries: torch.Tensor, keys: torch.Tensor, padded: torch.Tensor) -> torch.Tensor:
        scores = queries @ keys.transpose(-1, -2) * queries.shape[-1] ** -0.5
        return scores.masked_fill(padded[:, None, None, :], -1e9)


def get_inputs():
    lengths = torch.randint(LENGTH // 2, LENGTH, (2, 1))
    padded = torch.arange(LENGTH)[None] >= lengths
    return [torch.randn(2, HEADS, LENGTH, WIDTH), torch.randn(2, HEADS, LENGTH, WIDTH), padded]


def get_init_inputs():
    return []
