"""A few rows times a matrix of 4-bit floats that share an exponent in blocks of 32 (MXFP4).

Codes go through a table of sixteen values and a power of two in registers; plain operators write the wide
matrix first. In bfloat16.
"""

import torch
from torch import nn

ROWS = 4
INNER = 2880
OUTPUTS = 11520
BLOCK = 32

SHAPES = {
    "small": {"ROWS": 4, "INNER": 256, "OUTPUTS": 192},
    "odd": {"ROWS": 3, "INNER": 224, "OUTPUTS": 83},
}


class Model(nn.Module):
    def __init__(self, block: int):
        super().__init__()
        self.block = block

    def forward(self, x: torch.Tensor, codes: torch.Tensor, exponents: torch.Tensor) -> torch.Tensor:
        """Codes are [outputs, inner / 2], low halves for even inputs; exponents [outputs, blocks]."""
        steps = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
        table = torch.tensor([*steps, *(-step for step in steps)], device=x.device, dtype=x.dtype)
        index = torch.stack([codes & 15, codes >> 4], dim=-1).flatten(-2).long()
        scale = torch.exp2(exponents.float() - 127.0).to(x.dtype)
        weight = table[index].unflatten(-1, (-1, self.block)) * scale[..., None]
        return x @ weight.flatten(-2).T


def get_inputs():
    codes = torch.randint(0, 256, (OUTPUTS, INNER // 2), dtype=torch.uint8)
    exponents = torch.randint(118, 123, (OUTPUTS, INNER // BLOCK), dtype=torch.uint8)
    return [torch.randn(ROWS, INNER).bfloat16(), codes, exponents]


def get_init_inputs():
    return [BLOCK]
