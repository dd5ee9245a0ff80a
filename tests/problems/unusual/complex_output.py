"""Real input, complex output: a Fourier transform of rows, filtered by a complex parameter."""

import torch
from torch import nn

ROWS = 1024
COLUMNS = 512


class Model(nn.Module):
    def __init__(self, columns: int):
        super().__init__()
        self.filter = nn.Parameter(torch.randn(columns // 2 + 1, dtype=torch.complex64))

    def forward(self, x):
        return torch.fft.rfft(x, dim=-1) * self.filter


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [COLUMNS]
