"""Linear layer, learned scale per output feature, leaky ReLU: three steps to hide in a matmul's epilogue."""

import math

import torch
from torch import nn

BATCH = 4096
IN_FEATURES = 1536
OUT_FEATURES = 4608
SLOPE = 0.1

SHAPES = {
    "small": {"BATCH": 320, "IN_FEATURES": 384, "OUT_FEATURES": 512},
    "odd": {"BATCH": 307, "IN_FEATURES": 331, "OUT_FEATURES": 467},
}


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int, slope: float):
        super().__init__()
        self.slope = slope
        self.weight = nn.Parameter(torch.randn(out_features, in_features) / math.sqrt(in_features))
        self.bias = nn.Parameter(torch.randn(out_features))
        self.scale = nn.Parameter(1.0 + 0.5 * torch.randn(out_features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.linear(x, self.weight, self.bias) * self.scale
        return nn.functional.leaky_relu(y, self.slope)


def get_inputs():
    return [torch.randn(BATCH, IN_FEATURES)]


def get_init_inputs():
    return [IN_FEATURES, OUT_FEATURES, SLOPE]
