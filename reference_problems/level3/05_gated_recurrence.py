"""Gated recurrence, a state per feature, whose gate looks at the state: steps cannot run as a parallel scan.

Eager code launches a handful of tiny kernels a step; a fused one keeps the state in registers for all steps.
"""

import torch
from torch import nn

BATCH = 128
STEPS = 64
FEATURES = 2048

SHAPES = {
    "small": {"BATCH": 24, "STEPS": 24, "FEATURES": 384},
    "odd": {"BATCH": 23, "STEPS": 23, "FEATURES": 379},
}


class Model(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.initial = nn.Parameter(2.0 * torch.randn(features))
        self.recurrent = nn.Parameter(torch.randn(features))
        self.bias = nn.Parameter(torch.randn(features))

    def forward(self, x: torch.Tensor, gates: torch.Tensor) -> torch.Tensor:
        state = self.initial.expand(x.shape[0], -1)
        states = []
        for step in range(x.shape[1]):
            keep = torch.sigmoid(gates[:, step] + self.recurrent * state + self.bias)
            state = keep * state + (1.0 - keep) * x[:, step]
            states.append(state)
        return torch.stack(states, dim=1)


def get_inputs():
    return [2.0 * torch.randn(BATCH, STEPS, FEATURES), torch.randn(BATCH, STEPS, FEATURES)]


def get_init_inputs():
    return [FEATURES]
