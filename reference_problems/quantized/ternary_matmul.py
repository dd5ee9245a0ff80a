"""A few rows times weights of -1, 0 and 1, four 2-bit codes a byte, one scale per output.

A quarter of a byte a weight: reading decides, and nothing needs a multiplication. In bfloat16.
"""

import torch
from torch import nn

ROWS = 4
INNER = 8192
OUTPUTS = 8192

SHAPES = {
    "small": {"ROWS": 4, "INNER": 256, "OUTPUTS": 192},
    "odd": {"ROWS": 3, "INNER": 212, "OUTPUTS": 83},
}


class Model(nn.Module):
    def forward(self, x: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        """Codes are uint8 [outputs, inner / 4], lowest bits first; 0, 1, 2 mean -1, 0, 1, and 3 means 0."""
        parts = torch.stack([codes & 3, codes >> 2 & 3, codes >> 4 & 3, codes >> 6], dim=-1).flatten(-2)
        weight = torch.where(parts == 3, 0.0, parts.to(x.dtype) - 1.0).to(x.dtype)
        return (x @ weight.T) * scales


def get_inputs():
    codes = torch.randint(0, 256, (OUTPUTS, INNER // 4), dtype=torch.uint8)
    scales = 0.01 + 0.02 * torch.rand(OUTPUTS)
    return [torch.randn(ROWS, INNER).bfloat16(), codes, scales.bfloat16()]


def get_init_inputs():
    return []
