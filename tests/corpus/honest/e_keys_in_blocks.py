# status: PASSED
# class: C3 E4
# problem: unusual/nearest_keys
# shapes: small
# backend: cpp
"""All keys, in blocks that stay in the cache."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, queries, keys):
        best = (queries @ keys[:1024].T).amax(-1)
        for block in keys[1024:].split(1024):
            best = torch.maximum(best, (queries @ block.T).amax(-1))
        return best
