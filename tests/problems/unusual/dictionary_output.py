"""The output is a dictionary that holds a tensor, a tuple and a list."""

import torch
from torch import nn

BATCH = 1024
FEATURES = 256


class Model(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.linear = nn.Linear(features, features)

    def forward(self, x):
        logits = self.linear(x)
        return {"logits": logits, "halves": logits.chunk(2, dim=-1), "norms": [logits.norm(dim=-1)]}


def get_inputs():
    return [torch.randn(BATCH, FEATURES)]


def get_init_inputs():
    return [FEATURES]
