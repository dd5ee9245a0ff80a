"""Selective state-space scan: per feature and state place a decay that depends on the step, in float32.

The reference walks chunks of steps and stores the expanded state of each; a kernel keeps the state in
registers and writes outputs only.
"""

import torch
from torch import nn

BATCH = 2
LENGTH = 1024
FEATURES = 1024
STATES = 16
CHUNK = 32

SHAPES = {
    "small": {"BATCH": 2, "LENGTH": 96, "FEATURES": 48, "STATES": 8},
    "odd": {"BATCH": 1, "LENGTH": 83, "FEATURES": 37, "STATES": 5, "CHUNK": 17},
}


class Model(nn.Module):
    def __init__(self, features: int, states: int, chunk: int):
        super().__init__()
        self.rates = nn.Parameter(torch.rand(features, states) * 2.0 + 0.1)
        self.skip = nn.Parameter(torch.randn(features))
        self.chunk = chunk

    def forward(self, x: torch.Tensor, steps: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        """x and steps are [batch, length, features], b and c [batch, length, states]."""
        state = torch.zeros_like(x[:, 0, :, None] * self.rates)
        outputs = []
        for begin in range(0, x.shape[1], self.chunk):
            part = slice(begin, begin + self.chunk)
            decay = -(steps[:, part, :, None] * self.rates).cumsum(dim=1)
            fed = (steps[:, part] * x[:, part])[..., None] * b[:, part, None]
            total = decay.exp() * (state[:, None] + (fed * (-decay).exp()).cumsum(dim=1))
            outputs.append((total * c[:, part, None]).sum(dim=-1))
            state = total[:, -1]
        return torch.cat(outputs, dim=1) + self.skip * x


def get_inputs():
    x = torch.randn(BATCH, LENGTH, FEATURES)
    steps = 0.02 + 0.1 * torch.rand(BATCH, LENGTH, FEATURES)
    b, c = torch.randn(2, BATCH, LENGTH, STATES)
    return [x, steps, b, c]


def get_init_inputs():
    return [FEATURES, STATES, CHUNK]
