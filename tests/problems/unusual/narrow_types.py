"""A model and inputs in bfloat16 by their own choice, with a float16 input beside them."""

import torch
from torch import nn

BATCH = 512
FEATURES = 256


class Model(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.linear = nn.Linear(features, features, dtype=torch.bfloat16)

    def forward(self, x, scale):
        return torch.relu(self.linear(x)) * scale.to(torch.bfloat16)


def get_inputs():
    return [
        torch.randn(BATCH, FEATURES, dtype=torch.bfloat16),
        torch.randn(FEATURES, dtype=torch.float16),
    ]


def get_init_inputs():
    return [FEATURES]
