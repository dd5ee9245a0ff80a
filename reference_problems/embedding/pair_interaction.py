"""Inner products of every pair of feature vectors of a sample, after the first vector.

A sample's Gram matrix fits on chip, and only its lower triangle is stored; plain operators store all and
gather. In float32.
"""

import torch
from torch import nn

BATCH = 16384
VECTORS = 27
FEATURES = 64

SHAPES = {
    "small": {"BATCH": 96, "VECTORS": 9, "FEATURES": 32},
    "odd": {"BATCH": 83, "VECTORS": 7, "FEATURES": 19},
}


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x is [batch, vectors, features]; pairs (i, j) with j < i come in row order."""
        products = x @ x.transpose(-2, -1)
        rows, columns = torch.tril_indices(x.shape[1], x.shape[1], -1, device=x.device)
        return torch.cat([x[:, 0], products[:, rows, columns]], dim=-1)


def get_inputs():
    return [torch.randn(BATCH, VECTORS, FEATURES)]


def get_init_inputs():
    return []
