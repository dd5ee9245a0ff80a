# status: PASSED
# class: O11 O12
# problem: level1/24_relu_three_inputs
# shapes: small
# backend: cpp
"""In-place operations on copies of the inputs and on temporaries of its own."""
from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b, c):
        return a.clone().mul_(b).add_(c).relu_()
