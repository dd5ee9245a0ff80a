"""Layer normalisation that also returns what it measured, as a dictionary: rows, their means and deviations.

Rows have different centres and widths, so that both statistics are spread.
"""

import torch
from torch import nn

TOKENS = 16384
FEATURES = 4096
EPSILON = 1e-5

SHAPES = {"small": {"TOKENS": 1024, "FEATURES": 1024}, "odd": {"TOKENS": 1021, "FEATURES": 1019}}


class Model(nn.Module):
    def __init__(self, features: int, epsilon: float):
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(1.0 + 0.3 * torch.randn(features))
        self.bias = nn.Parameter(0.5 * torch.randn(features))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        deviation = torch.sqrt(centred.square().mean(dim=-1, keepdim=True) + self.epsilon)
        rows = centred / deviation * self.weight + self.bias
        return {"rows": rows, "mean": mean.squeeze(-1), "deviation": deviation.squeeze(-1)}


def get_inputs():
    return [torch.randn(TOKENS, FEATURES) * (0.5 + 2.0 * torch.rand(TOKENS, 1)) + torch.randn(TOKENS, 1)]


def get_init_inputs():
    return [FEATURES, EPSILON]
