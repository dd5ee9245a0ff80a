"""A module that takes its shape from the first call."""

import torch
from torch import nn

BATCH = 512
IN_FEATURES = 640
OUT_FEATURES = 320


class Model(nn.Module):
    def __init__(self, out_features: int):
        super().__init__()
        self.linear = nn.LazyLinear(out_features)

    def forward(self, x):
        return torch.relu(self.linear(x))


def get_inputs():
    return [torch.randn(BATCH, IN_FEATURES)]


def get_init_inputs():
    return [OUT_FEATURES]
