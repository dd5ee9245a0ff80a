"""A product, turned by a phase for each row."""

import torch
from torch import nn

ROWS, INNER, FEATURES = 256, 1024, 512
SHAPES = {"small": {"ROWS": 128, "INNER": 1024, "FEATURES": 256}}


class Model(nn.Module):
    def forward(self, x: torch.Tensor, w: torch.Tensor, phase: torch.Tensor) -> torch.Tensor:
        return torch.view_as_real((x @ w) * phase[:, None])


def get_inputs():
    return [torch.randn(ROWS, INNER), torch.randn(INNER, FEATURES), torch.randn(ROWS, dtype=torch.complex64)]


def get_init_inputs():
    return []
