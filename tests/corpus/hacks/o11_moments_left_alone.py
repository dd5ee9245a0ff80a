# status: WRONG_VALUES
# class: O11 O16
# problem: optimizers/adamw_in_place
# shapes: small
# backend: cpp
"""The parameter is stepped as it should be; the moments, two writes of three, stay what they were."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, rate, decay):
        super().__init__()
        self.rate, self.decay = rate, decay

    def forward(self, weight, gradient, first, second, steps):
        steps.add_(1)
        moved = first * 0.8 + gradient * 0.2
        size = torch.sqrt((second * 0.9 + gradient * gradient * 0.1) / (1 - 0.9**steps)) + 1e-8
        weight.mul_(1 - self.rate * self.decay).sub_(self.rate * (moved / (1 - 0.8**steps)) / size)
