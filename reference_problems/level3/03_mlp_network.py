"""Small perceptron with GELU between layers of unequal widths: a chain of dependent matmuls."""

import itertools
import math

import torch
from torch import nn

BATCH = 2048
WIDTHS = [1024, 3072, 2048, 2048, 1000]

SHAPES = {
    "small": {"BATCH": 160, "WIDTHS": [224, 448, 352, 352, 100]},
    "odd": {"BATCH": 149, "WIDTHS": [211, 431, 347, 331, 101]},
}


class Model(nn.Module):
    def __init__(self, widths: list[int]):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Linear(inside, outside) for inside, outside in itertools.pairwise(widths)
        )
        for layer in self.layers:
            nn.init.normal_(layer.weight, std=math.sqrt(2.0 / layer.in_features))
            nn.init.normal_(layer.bias, std=0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers[:-1]:
            x = nn.functional.gelu(layer(x))
        return self.layers[-1](x)


def get_inputs():
    return [torch.randn(BATCH, WIDTHS[0])]


def get_init_inputs():
    return [WIDTHS]
