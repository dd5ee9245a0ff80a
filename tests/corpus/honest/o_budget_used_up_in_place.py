# status: PASSED
# class: O2
# problem: ../tests/problems/answers/budget_used_up
# shapes: small
# backend: cpp
"""Short calls that use an input up: whoever makes one more call on the same input breaks it."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(columns) + 0.5)

    def forward(self, x, budget):
        if int(budget.min()) <= 0:
            raise ValueError("the budget is used up")
        budget.sub_(1)
        return x.mul(self.scale).cumsum(-1)
