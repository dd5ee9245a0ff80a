"""Maximum over the middle axis of a (batch, steps, features) tensor: exact, order-free, bound by memory."""

import torch
from torch import nn

BATCH = 128
STEPS = 512
FEATURES = 1024

SHAPES = {
    "small": {"BATCH": 40, "STEPS": 256, "FEATURES": 768},
    "odd": {"BATCH": 29, "STEPS": 253, "FEATURES": 509},
}


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.amax(dim=1)


def get_inputs():
    return [torch.randn(BATCH, STEPS, FEATURES)]


def get_init_inputs():
    return []
