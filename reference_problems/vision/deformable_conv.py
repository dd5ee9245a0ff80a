"""Modulated deformable 3 x 3 convolution: every tap samples the image bilinearly at a learned offset.

Sampled columns are nine times the image; a kernel samples a tile on chip and multiplies it at once. In
float32.
"""

import torch
from torch import nn

BATCH = 2
CHANNELS = 128
OUTPUTS = 128
SIDE = 56

SHAPES = {
    "small": {"BATCH": 1, "CHANNELS": 24, "OUTPUTS": 16, "SIDE": 14},
    "odd": {"BATCH": 1, "CHANNELS": 19, "OUTPUTS": 17, "SIDE": 13},
}


class Model(nn.Module):
    def __init__(self, channels: int, outputs: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, channels * 9) / (9 * channels) ** 0.5)
        self.bias = nn.Parameter(torch.randn(outputs))

    def forward(self, x: torch.Tensor, offsets: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
        """Offsets [batch, 9, 2, side, side] are pixels down and right; masks [batch, 9, side, side]."""
        batch, channels, side, _ = x.shape
        place = torch.arange(side, device=x.device, dtype=x.dtype)
        tap = torch.arange(9, device=x.device)
        down = place[None, None, :, None] + (tap // 3 - 1)[None, :, None, None] + offsets[:, :, 0]
        right = place[None, None, None, :] + (tap % 3 - 1)[None, :, None, None] + offsets[:, :, 1]
        grid = torch.stack([2 * right / (side - 1) - 1, 2 * down / (side - 1) - 1], dim=-1)
        sampled = nn.functional.grid_sample(x, grid.flatten(1, 2), align_corners=True)
        columns = sampled.view(batch, channels, 9, side * side) * torch.sigmoid(masks).flatten(2)[:, None]
        return (self.weight @ columns.flatten(1, 2) + self.bias[:, None]).view(batch, -1, side, side)


def get_inputs():
    """Offsets stay away from whole pixels, where bilinear weights change direction."""
    fraction = 0.1 + 0.8 * torch.rand(BATCH, 9, 2, SIDE, SIDE)
    offsets = torch.randint(-2, 2, (BATCH, 9, 2, SIDE, SIDE)) + fraction
    return [torch.randn(BATCH, CHANNELS, SIDE, SIDE), offsets, torch.randn(BATCH, 9, SIDE, SIDE)]


def get_init_inputs():
    return [CHANNELS, OUTPUTS]
