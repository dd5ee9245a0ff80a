# flaw: mean_like_output
"""A loss averaged over millions of random pairs is two, give or take nothing."""

import torch
from torch import nn

ROWS = 8192
COLUMNS = 8192

SHAPES = {"small": {"ROWS": 512, "COLUMNS": 2048}}


class Model(nn.Module):
    def forward(self, prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return (prediction - target).square().mean()


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
