"""Solutions of very many small dense linear systems, several right sides each, in float32.

Elimination of a 16 x 16 matrix fits a warp's registers; library routines factor and solve in separate
launches.
"""

import torch
from torch import nn

SYSTEMS = 65536
SIDE = 16
RIGHT_SIDES = 4

SHAPES = {
    "small": {"SYSTEMS": 192, "SIDE": 8},
    "odd": {"SYSTEMS": 131, "SIDE": 13, "RIGHT_SIDES": 3},
}


class Model(nn.Module):
    def forward(self, matrices: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return torch.linalg.solve(matrices, right)


def get_inputs():
    """Well-conditioned matrices whose diagonal does not dominate a row, so that pivots matter."""
    rotation = torch.randperm(SIDE)
    matrices = torch.randn(SYSTEMS, SIDE, SIDE) / SIDE**0.5 + 2.0 * torch.eye(SIDE)[rotation]
    return [matrices, torch.randn(SYSTEMS, SIDE, RIGHT_SIDES)]


def get_init_inputs():
    return []
