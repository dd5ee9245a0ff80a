"""Inputs are made on the GPU where there is one, by .cuda() and by a device argument."""

import torch
from torch import nn

ROWS = 2048
COLUMNS = 1024


class Model(nn.Module):
    def forward(self, x, y):
        return torch.atan2(x, y)


def get_inputs():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randn(ROWS, COLUMNS)
    if torch.cuda.is_available():
        x = x.cuda()
    return [x, torch.randn(ROWS, COLUMNS, device=device)]


def get_init_inputs():
    return []
