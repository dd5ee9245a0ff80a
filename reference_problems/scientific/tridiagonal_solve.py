"""Solutions of many tridiagonal systems by parallel cyclic reduction, in float32.

Each of the log2(n) steps of the reference passes over memory; a kernel keeps a whole system on chip for all
of them.
"""

import torch
from torch import nn

SYSTEMS = 16384
SIDE = 512

SHAPES = {"small": {"SYSTEMS": 192, "SIDE": 64}, "odd": {"SYSTEMS": 131, "SIDE": 61}}


class Model(nn.Module):
    def forward(
        self, lower: torch.Tensor, middle: torch.Tensor, upper: torch.Tensor, right: torch.Tensor
    ) -> torch.Tensor:
        """Row i: lower[i] x[i-1] + middle[i] x[i] + upper[i] x[i+1] = right[i]."""
        side, span = middle.shape[-1], 1
        lower, upper = _without_ends(lower, upper)
        while span < side:
            before, after = -lower / _moved(middle, span, 1.0), -upper / _moved(middle, -span, 1.0)
            right = right + before * _moved(right, span) + after * _moved(right, -span)
            middle = middle + before * _moved(upper, span) + after * _moved(lower, -span)
            lower, upper = before * _moved(lower, span), after * _moved(upper, -span)
            span *= 2
        return right / middle


def _without_ends(lower: torch.Tensor, upper: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    place = torch.arange(lower.shape[-1], device=lower.device)
    return torch.where(place > 0, lower, 0.0), torch.where(place < len(place) - 1, upper, 0.0)


def _moved(x: torch.Tensor, span: int, outside: float = 0.0) -> torch.Tensor:
    """x[i - span] at place i, `outside` beyond the ends."""
    if span > 0:
        return nn.functional.pad(x[..., :-span], (span, 0), value=outside)
    return nn.functional.pad(x[..., -span:], (0, -span), value=outside)


def get_inputs():
    lower, upper, right = torch.randn(3, SYSTEMS, SIDE)
    return [lower, lower.abs() + upper.abs() + 0.5 + torch.rand(SYSTEMS, SIDE), upper, right]


def get_init_inputs():
    return []
