# flaw: ignores_parameter
"""A bias on the keys shifts all scores of a query alike, and softmax does not see shifts."""

import math

import torch
from torch import nn

BATCH = 16
LENGTH = 1024
FEATURES = 64

SHAPES = {"small": {"BATCH": 2, "LENGTH": 160, "FEATURES": 48}}


class Model(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.key_weight = nn.Parameter(torch.randn(features, features) / math.sqrt(features))
        self.key_bias = nn.Parameter(torch.randn(features))

    def forward(self, query: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        key = nn.functional.linear(x, self.key_weight, self.key_bias)
        scores = query @ key.transpose(-2, -1) / math.sqrt(x.shape[-1])
        return torch.softmax(scores, dim=-1) @ x


def get_inputs():
    return [3.0 * torch.randn(BATCH, LENGTH, FEATURES), torch.randn(BATCH, LENGTH, FEATURES)]


def get_init_inputs():
    return [FEATURES]
