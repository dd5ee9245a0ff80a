"""Entropic optimal transport: alternating log-domain normalisation.

A matrix of 256 x 256 stays on chip for all iterations; plain operators read it twice in each. In float32.
"""

import torch
from torch import nn

BATCH = 256
SIDE = 256
ITERATIONS = 20

SHAPES = {
    "small": {"BATCH": 4, "SIDE": 48, "ITERATIONS": 6},
    "odd": {"BATCH": 3, "SIDE": 37, "ITERATIONS": 5},
}


class Model(nn.Module):
    def __init__(self, iterations: int):
        super().__init__()
        self.iterations = iterations

    def forward(self, costs: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        """Returns both potentials [batch, 2, side] for log-masses of rows and columns."""
        left, right = torch.zeros_like(rows), torch.zeros_like(columns)
        for _ in range(self.iterations):
            left = rows - torch.logsumexp(right[:, None, :] - costs, dim=2)
            right = columns - torch.logsumexp(left[:, :, None] - costs, dim=1)
        return torch.stack([left, right], dim=1)


def get_inputs():
    rows, columns = torch.log_softmax(torch.randn(2, BATCH, SIDE), dim=-1)
    return [4.0 * torch.rand(BATCH, SIDE, SIDE), rows, columns]


def get_init_inputs():
    return [ITERATIONS]
