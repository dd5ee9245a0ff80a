"""One vector times a learned matrix."""

import torch
from torch import nn

INNER, OUTPUTS = 8192, 4096
SHAPES = {"small": {"INNER": 4096, "OUTPUTS": 1024}}


class Model(nn.Module):
    def __init__(self, inner: int, outputs: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inner) / inner**0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight @ x


def get_inputs():
    return [torch.randn(INNER)]


def get_init_inputs():
    return [INNER, OUTPUTS]
