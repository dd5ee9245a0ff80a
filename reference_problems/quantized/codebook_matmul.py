"""Product of one row with a matrix whose runs of eight weights are sums of two codebook entries, in float32.

Both codebooks fit on chip; a kernel reads two bytes for eight weights, plain operators write the wide matrix.
"""

import torch
from torch import nn

ROWS = 2
INNER = 4096
OUTPUTS = 8192
RUN = 8
ENTRIES = 256

SHAPES = {
    "small": {"ROWS": 2, "INNER": 256, "OUTPUTS": 192},
    "odd": {"ROWS": 3, "INNER": 210, "OUTPUTS": 83, "RUN": 7},
}


class Model(nn.Module):
    def __init__(self, entries: int, run: int):
        super().__init__()
        self.books = nn.Parameter(torch.randn(2, entries, run) / 16.0)

    def forward(self, x: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        """Codes are uint8 [2, outputs, inner / run], scales [outputs]."""
        first, second = codes.long().unbind()
        weight = self.books[0][first] + self.books[1][second]
        return (x @ weight.flatten(-2).T) * scales


def get_inputs():
    codes = torch.randint(0, ENTRIES, (2, OUTPUTS, INNER // RUN), dtype=torch.uint8)
    return [torch.randn(ROWS, INNER), codes, 0.5 + torch.rand(OUTPUTS)]


def get_init_inputs():
    return [ENTRIES, RUN]
