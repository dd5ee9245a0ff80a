"""Gated running average h[t] = (1 - z[t]) h[t-1] + z[t] c[t] over long sequences, computed by logarithms.

The reference stores three scans; a kernel carries the state along time and fuses the gates. In float32.
"""

import torch
from torch import nn

BATCH = 4
LENGTH = 4096
FEATURES = 512

SHAPES = {
    "small": {"BATCH": 2, "LENGTH": 160, "FEATURES": 48},
    "odd": {"BATCH": 1, "LENGTH": 147, "FEATURES": 37},
}


class Model(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.initial = nn.Parameter(0.5 + torch.rand(features))

    def forward(self, gates: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
        """Gates are logits of z, candidates logits of positive values."""
        kept = -nn.functional.softplus(gates)
        fed = -nn.functional.softplus(-gates) + torch.log(nn.functional.softplus(candidates))
        sums = kept.cumsum(dim=1)
        total = torch.logcumsumexp(fed - sums, dim=1)
        return torch.exp(sums + torch.logaddexp(total, torch.log(self.initial.abs())))


def get_inputs():
    return [torch.randn(BATCH, LENGTH, FEATURES) - 5.0, torch.randn(BATCH, LENGTH, FEATURES)]


def get_init_inputs():
    return [FEATURES]
