"""A configuration object of the problem's own goes to the constructor, with another one inside."""

from dataclasses import dataclass, field

import torch
from torch import nn

BATCH = 16
SIZE = 64


@dataclass(frozen=True)
class Norm:
    groups: int = 8
    epsilon: float = 1e-5


@dataclass(frozen=True)
class Config:
    channels: int = 64
    norm: Norm = field(default_factory=Norm)

    @property
    def per_group(self) -> int:
        return self.channels // self.norm.groups


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm = nn.GroupNorm(config.channels // config.per_group, config.channels, config.norm.epsilon)

    def forward(self, x):
        return torch.relu(self.norm(x))


def get_inputs():
    return [torch.randn(BATCH, 64, SIZE, SIZE)]


def get_init_inputs():
    return [Config()]
