"""Embedding lookup: integer tokens select rows of a large table; all that counts is how rows are copied."""

import torch
from torch import nn

VOCABULARY = 50000
FEATURES = 768
BATCH = 64
LENGTH = 1024

SHAPES = {
    "small": {"VOCABULARY": 2000, "FEATURES": 384, "BATCH": 32, "LENGTH": 512},
    "odd": {"VOCABULARY": 1999, "FEATURES": 371, "BATCH": 29, "LENGTH": 431},
}


class Model(nn.Module):
    def __init__(self, vocabulary: int, features: int):
        super().__init__()
        self.table = nn.Parameter(torch.randn(vocabulary, features))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return nn.functional.embedding(tokens, self.table)


def get_inputs():
    return [torch.randint(0, VOCABULARY, (BATCH, LENGTH))]


def get_init_inputs():
    return [VOCABULARY, FEATURES]
