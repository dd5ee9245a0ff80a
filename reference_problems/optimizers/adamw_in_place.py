"""One AdamW step that updates a flat parameter and both moments in place, and counts itself.

Four reads and three writes in one pass; eager code writes every intermediate result to memory. The call
returns nothing: what it leaves in its arguments is its answer.
"""

import torch
from torch import nn

ELEMENTS = 33554432
RATE = 0.1
DECAY = 0.1

SHAPES = {"small": {"ELEMENTS": 16384}, "odd": {"ELEMENTS": 15013}}


class Model(nn.Module):
    def __init__(self, rate: float, decay: float):
        super().__init__()
        self.rate, self.decay = rate, decay

    def forward(
        self,
        weight: torch.Tensor,
        gradient: torch.Tensor,
        first: torch.Tensor,
        second: torch.Tensor,
        steps: torch.Tensor,
    ) -> None:
        """`steps` [1] counts the steps before this one, in int64."""
        steps.add_(1)
        first.mul_(0.8).add_(gradient, alpha=0.2)
        second.mul_(0.9).addcmul_(gradient, gradient, value=0.1)
        size = torch.sqrt(second / (1 - 0.9**steps)).add_(1e-8)
        weight.mul_(1 - self.rate * self.decay)
        weight.sub_(self.rate * (first / (1 - 0.8**steps)) / size)


def get_inputs():
    weight, gradient, first = torch.randn(3, ELEMENTS).unbind()
    second = 0.05 + 0.1 * torch.rand(ELEMENTS)
    return [weight, gradient, 0.1 * first, second, torch.randint(1, 40, (1,))]


def get_init_inputs():
    return [RATE, DECAY]
