"""get_init_inputs returns a dictionary: the constructor's keyword arguments, as in Model(**init_inputs)."""

import torch
from torch import nn

BATCH = 1024
IN_FEATURES = 256
OUT_FEATURES = 320


class Model(nn.Module):
    def __init__(self, *, in_features: int, out_features: int, slope: float = 0.5):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.slope = slope

    def forward(self, x):
        return nn.functional.leaky_relu(self.linear(x), self.slope)


def get_inputs():
    return [torch.randn(BATCH, IN_FEATURES)]


def get_init_inputs():
    return {"in_features": IN_FEATURES, "out_features": OUT_FEATURES, "slope": 0.2}
