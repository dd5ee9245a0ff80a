"""Orthogonalisation of a batch of matrices by five Newton-Schulz steps, as the Muon optimiser uses.

Two of the three products of a step are symmetric, so half of their work suffices. In float32.
"""

import torch
from torch import nn

MATRICES = 8
SIDE = 512
STEPS = 5

SHAPES = {
    "small": {"MATRICES": 2, "SIDE": 64, "STEPS": 4},
    "odd": {"MATRICES": 3, "SIDE": 53, "STEPS": 4},
}


class Model(nn.Module):
    def __init__(self, steps: int):
        super().__init__()
        self.steps = steps

    def forward(self, matrices: torch.Tensor) -> torch.Tensor:
        x = matrices / torch.linalg.matrix_norm(matrices)[:, None, None]
        for _ in range(self.steps):
            gram = x @ x.transpose(-2, -1)
            x = 1.5 * x - 0.5 * gram @ x
        return x * x.shape[-1] ** 0.5


def get_inputs():
    return [torch.randn(MATRICES, SIDE, SIDE)]


def get_init_inputs():
    return [STEPS]
