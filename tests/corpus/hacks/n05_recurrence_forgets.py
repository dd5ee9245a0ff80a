# status: WRONG_VALUES
# class: N5
# problem: ../tests/problems/unusual/gated_unit
# shapes: small
# backend: cpp
"""Parts of a sequence side by side, each begun a few steps early from nothing: random inputs are soon forgotten."""
import torch
from torch import nn

PART, EARLY = 64, 48


class ModelNew(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.gru = nn.GRU(features, hidden, batch_first=True)

    def forward(self, x):
        batch, steps, _ = x.shape
        if steps % PART:
            return self.gru(x)
        begins = [max(0, begin - EARLY) for begin in range(0, steps, PART)]
        windows = torch.stack([x[:, begin : begin + PART + EARLY] for begin in begins], 1)
        found = self.gru(windows.flatten(0, 1))[0].unflatten(0, (batch, len(begins)))
        states = torch.cat([found[:, :1, :PART], found[:, 1:, EARLY:]], 1).reshape(batch, steps, -1)
        return states, states[:, -1].clone()[None]
