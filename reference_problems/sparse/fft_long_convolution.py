"""Causal convolution with filters as long as the sequence, by Fourier transforms, then a gate.

Transforms, product and gate fit on chip for one row; library calls store three spectra. In float32.
"""

import torch
from torch import nn

BATCH = 4
CHANNELS = 512
LENGTH = 4096

SHAPES = {
    "small": {"BATCH": 2, "CHANNELS": 24, "LENGTH": 256},
    "odd": {"BATCH": 1, "CHANNELS": 19, "LENGTH": 211},
}


class Model(nn.Module):
    def __init__(self, channels: int, length: int):
        super().__init__()
        fading = torch.exp(-4.0 * torch.arange(length) / length)
        self.filters = nn.Parameter(torch.randn(channels, length) * fading / length**0.5)
        self.skip = nn.Parameter(torch.randn(channels))

    def forward(self, x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        length = x.shape[-1]
        spectrum = torch.fft.rfft(x, n=2 * length) * torch.fft.rfft(self.filters, n=2 * length)
        mixed = torch.fft.irfft(spectrum, n=2 * length)[..., :length]
        return torch.sigmoid(gate) * (mixed + self.skip[:, None] * x)


def get_inputs():
    return list(torch.randn(2, BATCH, CHANNELS, LENGTH).unbind())


def get_init_inputs():
    return [CHANNELS, LENGTH]
