"""get_inputs returns a list and a dictionary, which are two arguments and no pair of kinds of them."""

import torch
from torch import nn

ROWS = 1024
COLUMNS = 512


class Model(nn.Module):
    def forward(self, parts, weights):
        return torch.cat(parts, dim=1) * weights["scale"] + weights["shift"]


def get_inputs():
    parts = [torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)]
    return [parts, {"scale": torch.rand(2 * COLUMNS), "shift": torch.randn(2 * COLUMNS)}]


def get_init_inputs():
    return []
