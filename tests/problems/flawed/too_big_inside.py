# flaw: too_big
"""Inputs and output are small, but all pairwise differences, terabytes of them, are stored in between."""

import torch
from torch import nn

POINTS = 131072
FEATURES = 64


class Model(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x[:, None, :] - y[None, :, :]).square().sum(dim=-1).amin(dim=-1)


def get_inputs():
    return [torch.randn(POINTS, FEATURES), torch.randn(POINTS, FEATURES)]


def get_init_inputs():
    return []
