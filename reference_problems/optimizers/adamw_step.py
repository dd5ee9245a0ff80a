"""One AdamW step over a flat parameter, returning new parameter and moments, in float32.

Four reads and three writes in one pass, with the norm of the gradient clipped first, which needs a pass of
its own.
"""

import torch
from torch import nn

ELEMENTS = 33554432
RATE = 0.1
DECAY = 0.1
LARGEST_NORM = 100.0

SHAPES = {
    "small": {"ELEMENTS": 16384, "LARGEST_NORM": 30.0},
    "odd": {"ELEMENTS": 15013, "LARGEST_NORM": 30.0},
}


class Model(nn.Module):
    def __init__(self, rate: float, decay: float, largest_norm: float):
        super().__init__()
        self.rate, self.decay, self.largest_norm = rate, decay, largest_norm

    def forward(
        self, weight: torch.Tensor, gradient: torch.Tensor, first: torch.Tensor, second: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        norm = torch.linalg.vector_norm(gradient)
        gradient = gradient * torch.clamp(self.largest_norm / (norm + 1e-6), max=1.0)
        first = 0.8 * first + 0.2 * gradient
        second = 0.9 * second + 0.1 * gradient.square()
        step = first / (torch.sqrt(second) + 1e-8)
        return weight - self.rate * (step + self.decay * weight), first, second


def get_inputs():
    weight, gradient, first = torch.randn(3, ELEMENTS)
    return [weight, gradient, 0.1 * first, 0.05 + 0.1 * torch.rand(ELEMENTS)]


def get_init_inputs():
    return [RATE, DECAY, LARGEST_NORM]
