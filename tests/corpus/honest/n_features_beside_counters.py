# status: PASSED
# class: N4
# problem: ../tests/problems/unusual/counters_beside_features
# shapes: small
# backend: cpp
"""The network's sums are split in two halves beside counters that are copied."""
import torch
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, counters, features):
        super().__init__()
        self.hidden = nn.Linear(counters, 256)
        self.features = nn.Linear(256, features)

    def forward(self, counts):
        hidden = torch.relu(self.hidden(torch.log1p(counts)))
        first, second = hidden.chunk(2, dim=-1)
        left, right = self.features.weight.chunk(2, dim=1)
        made = F.linear(first, left) + F.linear(second, right) + self.features.bias
        return torch.cat([counts, made], dim=-1)
