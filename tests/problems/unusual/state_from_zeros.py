"""One step of a linear state space model: the state begins as zeros."""

import torch
from torch import nn

ROWS, INNER, FEATURES = 512, 512, 512
SHAPES = {"small": {"ROWS": 256, "INNER": 256, "FEATURES": 256}}


class Model(nn.Module):
    def forward(self, x: torch.Tensor, w: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        return x @ w + 0.9 * state


def get_inputs():
    return [torch.randn(ROWS, INNER), torch.randn(INNER, FEATURES), torch.zeros(ROWS, FEATURES)]


def get_init_inputs():
    return []
