"""Product of a few rows with a matrix of 8-bit codes, one scale per output, in bfloat16.

One byte a weight instead of five: a kernel converts in registers, plain operators write a wide matrix and
read it again.
"""

import torch
from torch import nn

ROWS = 8
INNER = 4096
OUTPUTS = 14336

SHAPES = {
    "small": {"ROWS": 4, "INNER": 256, "OUTPUTS": 192},
    "odd": {"ROWS": 3, "INNER": 211, "OUTPUTS": 83},
}


class Model(nn.Module):
    def forward(self, x: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        """Codes are int8 [outputs, inner], scales [outputs]."""
        return (x @ codes.to(x.dtype).T) * scales


def get_inputs():
    codes = torch.randint(-127, 128, (OUTPUTS, INNER), dtype=torch.int8)
    scales = 0.0005 + 0.001 * torch.rand(OUTPUTS)
    return [torch.randn(ROWS, INNER).bfloat16(), codes, scales.bfloat16()]


def get_init_inputs():
    return []
