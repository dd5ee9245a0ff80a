"""Annotated constants and shapes, a helper class, a lambda, and code that only runs as a script."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

ROWS: int = 2048
COLUMNS: int = 1024
GAIN: float = 1.5
SHAPES: dict[str, dict[str, int]] = {"small": {"ROWS": 256}, "odd": {"ROWS": 251, "COLUMNS": 1021}}


@dataclass
class Activation:
    function: Callable[[torch.Tensor], torch.Tensor]
    gain: float


class Model(nn.Module):
    def __init__(self, gain: float):
        super().__init__()
        self.activation = Activation(torch.tanh, gain)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.activation.function(x) * self.activation.gain


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


get_init_inputs: Callable[[], list[float]] = lambda: [GAIN]  # noqa: E731


if __name__ == "__main__":
    print(Model(*get_init_inputs())(*get_inputs()).shape)
