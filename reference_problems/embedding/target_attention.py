"""Target attention: a small network scores each past item against the target, and the scores weight the past.

The network's input is four vectors side by side; a kernel never stores that copy nor the hidden layer. In
float32.
"""

import torch
from torch import nn

BATCH = 512
LENGTH = 128
FEATURES = 64
HIDDEN = 40

SHAPES = {
    "small": {"BATCH": 16, "LENGTH": 24, "FEATURES": 16, "HIDDEN": 12},
    "odd": {"BATCH": 17, "LENGTH": 23, "FEATURES": 13, "HIDDEN": 9},
}


class Model(nn.Module):
    def __init__(self, features: int, hidden: int):
        super().__init__()
        self.first = nn.Parameter(torch.randn(4 * features, hidden) / (4 * features) ** 0.5)
        self.bias = nn.Parameter(torch.randn(hidden))
        self.second = nn.Parameter(torch.randn(hidden) / hidden**0.5)

    def forward(self, target: torch.Tensor, past: torch.Tensor) -> torch.Tensor:
        """Target is [batch, features], past [batch, length, features]."""
        wide = target[:, None].expand_as(past)
        both = torch.cat([wide, past, wide - past, wide * past], dim=-1)
        hidden = torch.sigmoid(both @ self.first + self.bias)
        return ((hidden @ self.second)[..., None] * past).sum(dim=1)


def get_inputs():
    return [torch.randn(BATCH, FEATURES), torch.randn(BATCH, LENGTH, FEATURES)]


def get_init_inputs():
    return [FEATURES, HIDDEN]
