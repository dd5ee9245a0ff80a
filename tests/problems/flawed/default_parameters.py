# flaw: default_parameters
"""Scale and shift keep their defaults, ones and zeros: a kernel that leaves both out is never caught."""

import torch
from torch import nn

TOKENS = 16384
FEATURES = 4096

SHAPES = {"small": {"TOKENS": 512, "FEATURES": 1024}}


class Model(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


def get_inputs():
    return [torch.randn(TOKENS, FEATURES)]


def get_init_inputs():
    return [FEATURES]
