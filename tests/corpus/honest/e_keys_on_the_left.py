# status: PASSED
# class: C3 E4
# problem: unusual/nearest_keys
# shapes: small
# backend: cpp
"""All keys, as the left side of the product."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, queries, keys):
        return (keys @ queries.T).amax(0)
