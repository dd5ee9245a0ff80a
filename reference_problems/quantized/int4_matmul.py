"""Product of a few rows with a matrix of 4-bit codes, one scale and offset per 128 inputs, in bfloat16.

A kernel widens codes in registers and reads half a byte a weight; plain operators write the wide matrix
first.
"""

import torch
from torch import nn

ROWS = 16
INNER = 4096
OUTPUTS = 8192
SHARED = 128

SHAPES = {
    "small": {"ROWS": 8, "INNER": 256, "OUTPUTS": 192, "SHARED": 64},
    "odd": {"ROWS": 5, "INNER": 224, "OUTPUTS": 83, "SHARED": 32},
}


class Model(nn.Module):
    def __init__(self, shared: int):
        super().__init__()
        self.shared = shared

    def forward(
        self, x: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor, offsets: torch.Tensor
    ) -> torch.Tensor:
        """Codes are [outputs, inner / 2], low halves for even inputs; scales [outputs, groups]."""
        wide = torch.stack([codes & 15, codes >> 4], dim=-1).flatten(-2).to(x.dtype)
        groups = wide.unflatten(-1, (-1, self.shared))
        weight = (groups - offsets[..., None]) * scales[..., None]
        return x @ weight.flatten(-2).T


def get_inputs():
    codes = torch.randint(0, 256, (OUTPUTS, INNER // 2), dtype=torch.uint8)
    groups = (OUTPUTS, INNER // SHARED)
    scales, offsets = 0.01 + 0.02 * torch.rand(groups), torch.randint(4, 12, groups)
    return [torch.randn(ROWS, INNER).bfloat16(), codes, scales.bfloat16(), offsets.bfloat16()]


def get_init_inputs():
    return [SHARED]
