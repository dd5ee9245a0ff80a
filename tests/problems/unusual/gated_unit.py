"""A gated recurrent unit: all its states, and the last one."""

import torch
from torch import nn

BATCH, STEPS, FEATURES, HIDDEN = 16, 1024, 64, 128
SHAPES = {"small": {"BATCH": 2, "STEPS": 256, "FEATURES": 32, "HIDDEN": 64}}


class Model(nn.Module):
    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.gru = nn.GRU(features, hidden, batch_first=True)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.gru(x)


def get_inputs():
    return [torch.randn(BATCH, STEPS, FEATURES)]


def get_init_inputs():
    return [FEATURES, HIDDEN]
