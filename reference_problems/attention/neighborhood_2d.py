"""Neighbourhood attention on an image: each pixel attends to the window of pixels around it, in float32.

Unfolding copies every key and value once per window place; a kernel keeps a tile and its border on chip and
copies nothing.
"""

import math

import torch
from torch import nn

BATCH = 2
HEADS = 4
SIDE = 56
WINDOW = 7
HEAD_FEATURES = 32

SHAPES = {
    "small": {"BATCH": 1, "HEADS": 2, "SIDE": 16, "WINDOW": 5, "HEAD_FEATURES": 16},
    "odd": {"BATCH": 1, "HEADS": 3, "SIDE": 19, "WINDOW": 3, "HEAD_FEATURES": 17},
}


class Model(nn.Module):
    def __init__(self, window: int):
        super().__init__()
        self.window = window

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        features = query.shape[2]
        around = self._windows(torch.cat([key, value], dim=2))
        keys, values = around[:, :, :features], around[:, :, features:]
        scores = (query[:, :, :, None] * keys).sum(dim=2) / math.sqrt(features)
        inside = self._windows(torch.ones_like(query[:1, :1, :1]))[:, :, 0]
        weights = torch.softmax(scores.masked_fill(inside == 0, float("-inf")), dim=2)
        return (weights[:, :, None] * values).sum(dim=3)

    def _windows(self, image: torch.Tensor) -> torch.Tensor:
        """Neighbours of each pixel, shape [batch, heads, features, window * window, side, side]."""
        batch, heads, features, side, _ = image.shape
        around = nn.functional.unfold(image.flatten(0, 1), self.window, padding=self.window // 2)
        return around.view(batch, heads, features, self.window**2, side, side)


def get_inputs():
    shape = (BATCH, HEADS, HEAD_FEATURES, SIDE, SIDE)
    return [2.0 * torch.randn(shape), torch.randn(shape), torch.randn(shape)]


def get_init_inputs():
    return [WINDOW]
