"""Soft dynamic time warping between many pairs of short series: a soft minimum along every alignment path.

The reference walks 63 anti-diagonals with several launches each; a kernel keeps one pair's table on chip. In
float32.
"""

import torch
from torch import nn

PAIRS = 8192
LENGTH = 32
FEATURES = 4
SMOOTHING = 0.5

SHAPES = {
    "small": {"PAIRS": 96, "LENGTH": 16},
    "odd": {"PAIRS": 83, "LENGTH": 13, "FEATURES": 3},
}


class Model(nn.Module):
    def __init__(self, smoothing: float):
        super().__init__()
        self.smoothing = smoothing

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        costs = (left[:, :, None] - right[:, None, :]).square().sum(dim=-1)
        pairs, length, _ = costs.shape
        table = torch.full((pairs, length + 1, length + 1), 1e10, device=costs.device, dtype=costs.dtype)
        table[:, 0, 0] = 0.0
        for diagonal in range(2, 2 * length + 1):
            rows = torch.arange(max(1, diagonal - length), min(length, diagonal - 1) + 1, device=costs.device)
            columns = diagonal - rows
            ways = torch.stack(
                [table[:, rows - 1, columns - 1], table[:, rows - 1, columns], table[:, rows, columns - 1]]
            )
            least = -self.smoothing * torch.logsumexp(-ways / self.smoothing, dim=0)
            table[:, rows, columns] = costs[:, rows - 1, columns - 1] + least
        return table[:, length, length]


def get_inputs():
    return list(torch.randn(2, PAIRS, LENGTH, FEATURES).unbind())


def get_init_inputs():
    return [SMOOTHING]
