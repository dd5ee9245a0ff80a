# status: WRONG_VALUES
# class: N4
# problem: ../tests/problems/unusual/counters_beside_features
# shapes: small
# backend: cpp
"""Counters are copied and the network is left out: its features are smaller than a counter's last bit."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, counters, features):
        super().__init__()
        self.hidden = nn.Linear(counters, 256)
        self.features = nn.Linear(256, features)

    def forward(self, counts):
        return torch.cat([counts, counts.new_zeros(len(counts), self.features.out_features)], dim=-1)
