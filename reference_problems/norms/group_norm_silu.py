"""Group normalisation and SiLU over images, as in diffusion models, in bfloat16 with float32 statistics.

A group fits on chip, so statistics and result need one read and one write together.
"""

import torch
from torch import nn

BATCH = 8
CHANNELS = 320
GROUPS = 32
SIDE = 64

SHAPES = {
    "small": {"BATCH": 2, "CHANNELS": 32, "GROUPS": 8, "SIDE": 16},
    "odd": {"BATCH": 1, "CHANNELS": 33, "GROUPS": 11, "SIDE": 17},
}


class Model(nn.Module):
    def __init__(self, channels: int, groups: int):
        super().__init__()
        self.scale = nn.Parameter(0.5 + torch.rand(channels))
        self.shift = nn.Parameter(torch.randn(channels))
        self.groups = groups

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normal = nn.functional.group_norm(x.float(), self.groups, self.scale.float(), self.shift.float())
        return nn.functional.silu(normal).to(x.dtype)


def get_inputs():
    return [(2.0 * torch.randn(BATCH, CHANNELS, SIDE, SIDE) + 0.5).bfloat16()]


def get_init_inputs():
    return [CHANNELS, GROUPS]
