"""Triangle multiplication of a pair representation: gates, a product over the third node, norms.

Five projections, two gates and two norms join around one batched product; in float32.
"""

import torch
from torch import nn

NODES = 256
FEATURES = 64

SHAPES = {"small": {"NODES": 32, "FEATURES": 24}, "odd": {"NODES": 29, "FEATURES": 19}}


class Model(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        shape = (5, features, features)
        self.weights = nn.Parameter(torch.randn(shape) / features**0.5)
        self.scales = nn.Parameter(0.5 + torch.rand(2, features))
        self.shifts = nn.Parameter(0.5 * torch.randn(2, features))

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        """Pairs are [nodes, nodes, features]."""
        features = pairs.shape[-1:]
        x = nn.functional.layer_norm(pairs, features, self.scales[0], self.shifts[0])
        left = torch.sigmoid(x @ self.weights[0]) * (x @ self.weights[1])
        right = torch.sigmoid(x @ self.weights[2]) * (x @ self.weights[3])
        joined = torch.einsum("ikc,jkc->ijc", left, right)
        joined = nn.functional.layer_norm(joined, features, self.scales[1], self.shifts[1])
        return torch.sigmoid(x @ self.weights[4]) * joined


def get_inputs():
    return [torch.randn(NODES, NODES, FEATURES)]


def get_init_inputs():
    return [FEATURES]
