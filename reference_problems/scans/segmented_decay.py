"""Decaying running sum with restarts at flags: y[t] = x[t] + (flag[t] ? 0 : a * y[t-1]).

Restarts keep the compiler from using its own scan; an associative scan over pairs needs one read and one
write. Flags are set with probability 1/64, drawn anew for each call. In float32.
"""

import torch
from torch import nn

ROWS = 4096
LENGTH = 4096

SHAPES = {"small": {"ROWS": 64, "LENGTH": 512}, "odd": {"ROWS": 53, "LENGTH": 509}}


class Model(nn.Module):
    def __init__(self, rows: int):
        super().__init__()
        self.decay = nn.Parameter(0.5 + 0.45 * torch.rand(rows))

    def forward(self, x: torch.Tensor, flags: torch.Tensor) -> torch.Tensor:
        """Doubles the span that each place has summed, until it covers a row."""
        total = x
        factor = torch.where(flags, 0.0, self.decay[:, None])
        span = 1
        while span < x.shape[1]:
            total = torch.cat([total[:, :span], total[:, span:] + factor[:, span:] * total[:, :-span]], dim=1)
            factor = torch.cat([factor[:, :span], factor[:, span:] * factor[:, :-span]], dim=1)
            span *= 2
        return total


def get_inputs():
    return [torch.randn(ROWS, LENGTH), torch.rand(ROWS, LENGTH) < 1 / 64]


def get_init_inputs():
    return [ROWS]
