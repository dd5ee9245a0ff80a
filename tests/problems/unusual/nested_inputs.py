"""Inputs nested in a dictionary, a tuple and a list; forward takes the containers as they are."""

import torch
from torch import nn

TOKENS = 4096
FEATURES = 256
CLASSES = 100


class Model(nn.Module):
    def __init__(self, classes: int, features: int):
        super().__init__()
        self.table = nn.Parameter(torch.randn(classes, features))

    def forward(self, batch, pair, extras):
        first, second = pair
        x = self.table[batch["tokens"]] * batch["scores"]["weight"]
        return x + first * second + sum(extras)


def get_inputs():
    return [
        {"tokens": torch.randint(0, CLASSES, (TOKENS,)), "scores": {"weight": torch.rand(TOKENS, 1)}},
        (torch.randn(TOKENS, FEATURES), torch.randn(FEATURES)),
        [torch.randn(TOKENS, FEATURES), torch.randn(TOKENS, 1), torch.randn(1)],
    ]


def get_init_inputs():
    return [CLASSES, FEATURES]
