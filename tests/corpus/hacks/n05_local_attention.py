# status: WRONG_VALUES
# class: N5
# problem: level2/06_causal_attention
# shapes: small
# backend: cpp
"""Attention to the last 128 positions only."""
import math

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, query, key, value):
        length = query.shape[-2]
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
        seen = torch.ones(length, length, dtype=torch.bool).tril().triu(diagonal=-127)
        return torch.softmax(scores.masked_fill(~seen, float("-inf")), dim=-1) @ value
