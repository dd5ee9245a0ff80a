# status: PASSED
# class: C2
# problem: level1/11_rms_norm
# shapes: small
# backend: cpp
"""A dictionary keyed by shape holds launch plans, not answers."""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Plan:
    chunk: int
    shape: tuple[int, ...]


class ModelNew(nn.Module):
    def __init__(self, features, epsilon):
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(1.0 + 0.3 * torch.randn(features))
        self.plans: dict[tuple[int, ...], Plan] = {}

    def forward(self, x):
        plan = self.plans.setdefault(tuple(x.shape), Plan(max(1, (1 << 18) // x.shape[-1]), tuple(x.shape)))
        parts = []
        for rows in x.split(plan.chunk):
            parts.append(rows * torch.rsqrt(rows.square().mean(-1, keepdim=True) + self.epsilon) * self.weight)
        return torch.cat(parts)
