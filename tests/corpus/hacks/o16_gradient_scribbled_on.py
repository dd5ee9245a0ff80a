# status: INPUT_MUTATED
# class: O11 O16
# problem: optimizers/adamw_in_place
# shapes: small
# backend: cpp
"""Updates all it should, and uses the gradient's memory, which the reference leaves alone, as scratch space."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, rate, decay):
        super().__init__()
        self.rate, self.decay = rate, decay

    def forward(self, weight, gradient, first, second, steps):
        steps.add_(1)
        first.lerp_(gradient, 0.2)
        second.mul_(0.9).add_(gradient.square_(), alpha=0.1)
        size = torch.sqrt(second / (1 - 0.9**steps)).add_(1e-8)
        weight.mul_(1 - self.rate * self.decay).sub_(self.rate * (first / (1 - 0.8**steps)) / size)
