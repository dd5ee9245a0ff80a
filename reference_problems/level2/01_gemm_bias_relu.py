"""Linear layer followed by ReLU: the bias and the activation belong into the epilogue of the matmul."""

import math

import torch
from torch import nn

BATCH = 2048
IN_FEATURES = 4096
OUT_FEATURES = 3072

SHAPES = {
    "small": {"BATCH": 256, "IN_FEATURES": 512, "OUT_FEATURES": 448},
    "odd": {"BATCH": 233, "IN_FEATURES": 443, "OUT_FEATURES": 331},
}


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_features, in_features) / math.sqrt(in_features))
        self.bias = nn.Parameter(torch.randn(out_features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(nn.functional.linear(x, self.weight, self.bias))


def get_inputs():
    return [torch.randn(BATCH, IN_FEATURES)]


def get_init_inputs():
    return [IN_FEATURES, OUT_FEATURES]
