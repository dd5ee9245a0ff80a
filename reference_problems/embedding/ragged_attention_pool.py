"""Attention pooling of padded sequences of different lengths: softmax of a score per step, weighted sum.

Sequences fill a quarter on average, lengths drawn anew; a kernel reads no padding and each step once. In
float32.
"""

import torch
from torch import nn

BATCH = 2048
LENGTH = 512
FEATURES = 128

SHAPES = {
    "small": {"BATCH": 32, "LENGTH": 48, "FEATURES": 32},
    "odd": {"BATCH": 23, "LENGTH": 37, "FEATURES": 19},
}


class Model(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.direction = nn.Parameter(2.0 * torch.randn(features) / features**0.5)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        scores = x @ self.direction
        beyond = torch.arange(x.shape[1], device=x.device) >= lengths[:, None]
        weights = torch.softmax(scores.masked_fill(beyond, float("-inf")), dim=-1)
        return (weights[..., None] * x).sum(dim=1)


def get_inputs():
    """`lengths` [BATCH] counts valid steps, at least one."""
    lengths = 1 + (LENGTH * torch.rand(BATCH).square() * 0.75).long()
    return [torch.randn(BATCH, LENGTH, FEATURES), lengths]


def get_init_inputs():
    return [FEATURES]
