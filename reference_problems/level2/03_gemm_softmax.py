"""Linear layer and softmax over its outputs: row statistics of a matmul's result, without storing it twice.

The weights give logits a spread of 3, so that rows are peaked and the answer is not close to zero everywhere.
"""

import math

import torch
from torch import nn

BATCH = 8192
IN_FEATURES = 1024
OUT_FEATURES = 2048
SPREAD = 3.0

SHAPES = {
    "small": {"BATCH": 256, "IN_FEATURES": 384, "OUT_FEATURES": 640},
    "odd": {"BATCH": 241, "IN_FEATURES": 331, "OUT_FEATURES": 521},
}


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int, spread: float):
        super().__init__()
        self.weight = nn.Parameter(spread * torch.randn(out_features, in_features) / math.sqrt(in_features))
        self.bias = nn.Parameter(torch.randn(out_features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(nn.functional.linear(x, self.weight, self.bias), dim=-1)


def get_inputs():
    return [torch.randn(BATCH, IN_FEATURES)]


def get_init_inputs():
    return [IN_FEATURES, OUT_FEATURES, SPREAD]
