"""Gradients of layer normalisation for its input, scale and shift, from plain inputs.

Row sums and column sums of the same data: one read can serve both, though they run along different axes. In
float32.
"""

import torch
from torch import nn

ROWS = 8192
FEATURES = 4096

SHAPES = {"small": {"ROWS": 96, "FEATURES": 256}, "odd": {"ROWS": 83, "FEATURES": 211}}


class Model(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.scale = nn.Parameter(0.5 + torch.rand(features))

    def forward(
        self, x: torch.Tensor, upstream: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Returns the gradients for x [rows, features], scale [features] and shift [features]."""
        centred = x - x.mean(dim=-1, keepdim=True)
        factor = torch.rsqrt(centred.square().mean(dim=-1, keepdim=True) + 1e-5)
        normal, scaled = centred * factor, upstream * self.scale
        along = (scaled * normal).mean(dim=-1, keepdim=True)
        gradient = factor * (scaled - scaled.mean(dim=-1, keepdim=True) - normal * along)
        return gradient, (upstream * normal).sum(dim=0), upstream.sum(dim=0)


def get_inputs():
    return [2.0 * torch.randn(ROWS, FEATURES) + 0.5, torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return [FEATURES]
