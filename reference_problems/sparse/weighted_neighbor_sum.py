"""Sparse matrix times dense matrix in edge form: a weighted sum of each node's neighbours.

The gathered messages are sixteen times the node features; a kernel adds them up in registers instead of
storing them. In float32.
"""

import torch
from torch import nn

NODES = 65536
EDGES = 1048576
FEATURES = 128

SHAPES = {
    "small": {"NODES": 256, "EDGES": 3072, "FEATURES": 32},
    "odd": {"NODES": 211, "EDGES": 2503, "FEATURES": 19},
}


class Model(nn.Module):
    def forward(
        self, x: torch.Tensor, sources: torch.Tensor, targets: torch.Tensor, weights: torch.Tensor
    ) -> torch.Tensor:
        """x is [nodes, features]; edge i leads from sources[i] to targets[i], targets ascending."""
        return torch.zeros_like(x).index_add(0, targets, weights[:, None] * x[sources])


def get_inputs():
    targets = torch.randint(0, NODES, (EDGES,)).sort().values
    sources = torch.randint(0, NODES, (EDGES,))
    return [torch.randn(NODES, FEATURES), sources, targets, torch.randn(EDGES)]


def get_init_inputs():
    return []
