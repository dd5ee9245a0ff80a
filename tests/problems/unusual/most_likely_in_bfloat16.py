"""The largest of 2,000 logits in bfloat16, of which several are often equal."""

import torch
from torch import nn

ROWS = 1024
SHAPES = {"small": {"ROWS": 128}}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(256, 2000, bias=False).bfloat16()

    def forward(self, x):
        return self.head(x).argmax(-1)


def get_inputs():
    return [torch.randn(ROWS, 256, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
