"""Each call uses up a unit of a budget, in place, and refuses to go on without: no call may be made twice."""

import torch
from torch import nn

ROWS = 512
SHAPES = {"small": {"ROWS": 64}}


class Model(nn.Module):
    def __init__(self, columns: int):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(columns) + 0.5)

    def forward(self, x: torch.Tensor, budget: torch.Tensor) -> torch.Tensor:
        if not bool((budget > 0).all()):
            raise ValueError("the budget is used up")
        budget -= 1
        return (x * self.scale).cumsum(-1)


def get_inputs():
    return [torch.randn(ROWS, 256), torch.randint(1, 4, (8,))]


def get_init_inputs():
    return [256]
