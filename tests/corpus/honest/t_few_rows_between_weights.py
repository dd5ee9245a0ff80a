# status: PASSED
# class: T7
# problem: unusual/few_rows_mlp
# shapes: small
# backend: cpp
"""Short calls whose weights are most of their work, with scratch memory kept from call to call."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)
        self.scratch = None

    def forward(self, x):
        if self.scratch is None or self.scratch.shape[0] != x.shape[0]:
            self.scratch = x.new_empty(x.shape[0], self.up.out_features)
        hidden = torch.addmm(self.up.bias, x, self.up.weight.t(), out=self.scratch).relu_()
        return torch.addmm(self.down.bias, hidden, self.down.weight.t())
