"""Sum over the middle axis of a (batch, steps, features) tensor: a reduction whose terms lie far apart."""

import torch
from torch import nn

BATCH = 16
STEPS = 4096
FEATURES = 1024

SHAPES = {
    "small": {"BATCH": 20, "STEPS": 512, "FEATURES": 768},
    "odd": {"BATCH": 17, "STEPS": 511, "FEATURES": 1021},
}


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(dim=1)


def get_inputs():
    return [torch.randn(BATCH, STEPS, FEATURES)]


def get_init_inputs():
    return []
