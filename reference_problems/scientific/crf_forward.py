"""Log-partition of a linear-chain conditional random field: 48 steps of a log-domain matrix product.

The transition matrix stays on chip for all steps; plain operators store an expanded table in each. In
float32.
"""

import torch
from torch import nn

BATCH = 512
LENGTH = 48
STATES = 64

SHAPES = {
    "small": {"BATCH": 16, "LENGTH": 16, "STATES": 24},
    "odd": {"BATCH": 17, "LENGTH": 15, "STATES": 21},
}


class Model(nn.Module):
    def __init__(self, states: int):
        super().__init__()
        self.transitions = nn.Parameter(torch.randn(states, states))
        self.start = nn.Parameter(torch.randn(states))

    def forward(self, emissions: torch.Tensor) -> torch.Tensor:
        total = self.start + emissions[:, 0]
        for step in range(1, emissions.shape[1]):
            total = torch.logsumexp(total[:, :, None] + self.transitions, dim=1) + emissions[:, step]
        return torch.logsumexp(total, dim=-1)


def get_inputs():
    return [2.0 * torch.randn(BATCH, LENGTH, STATES)]


def get_init_inputs():
    return [STATES]
