"""Log-mel spectrogram of audio: overlapping windows, Fourier transform, power, mel bands, logarithm.

A kernel transforms a frame on chip and stores only its bands; library calls store the complex spectrum. In
float32.
"""

import math

import torch
from torch import nn

CLIPS = 64
SAMPLES = 160000
WINDOW = 400
HOP = 160
BANDS = 80

SHAPES = {
    "small": {"CLIPS": 2, "SAMPLES": 8000, "BANDS": 40},
    "odd": {"CLIPS": 3, "SAMPLES": 5003, "WINDOW": 250, "HOP": 101, "BANDS": 37},
}


class Model(nn.Module):
    def __init__(self, window: int, hop: int, bands: int):
        super().__init__()
        self.hop = hop
        self.window = nn.Parameter(torch.hann_window(window) + 0.05 * torch.rand(window))
        self.bands = nn.Parameter(
            _triangles(bands, window // 2 + 1) + 0.01 * torch.rand(bands, window // 2 + 1)
        )

    def forward(self, audio: torch.Tensor) -> torch.Tensor:
        """Bands [clips, bands, frames] of audio [clips, samples]."""
        frames = audio.unfold(-1, self.window.shape[0], self.hop) * self.window
        power = torch.view_as_real(torch.fft.rfft(frames)).square().sum(dim=-1)
        return torch.log(power @ self.bands.T + 1e-6).transpose(-2, -1)


def _triangles(bands: int, places: int) -> torch.Tensor:
    """Overlapping triangular filters, spaced by the logarithm of frequency."""
    steps = torch.linspace(0.0, math.log(1.0 + places), bands + 2)
    edges = torch.exp(steps) - 1.0
    left, middle, right = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    place = torch.arange(places)[None, :]
    rising, falling = (place - left) / (middle - left), (right - place) / (right - middle)
    return torch.minimum(rising, falling).clamp(min=0.0)


def get_inputs():
    return [torch.randn(CLIPS, SAMPLES)]


def get_init_inputs():
    return [WINDOW, HOP, BANDS]
