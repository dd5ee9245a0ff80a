# status: WRONG_VALUES
# class: N5
# problem: unusual/small_weights
# shapes: small
# backend: cpp
"""A fixed point is reached after 24 of 50 steps, as long as its weights are as small as drawn."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features, steps):
        super().__init__()
        self.query = nn.Parameter(torch.empty(features, features).uniform_(-0.023, 0.023))
        self.key = nn.Parameter(torch.empty(features, features).uniform_(-0.023, 0.023))
        self.value = nn.Parameter(torch.randn(features, features) / features**0.5)
        self.refine = nn.Parameter(0.4 * torch.randn(features, features) / features**0.5)
        self.steps = steps

    def forward(self, x):
        x = nn.functional.layer_norm(x, x.shape[-1:])
        scores = (x @ self.query) @ (x @ self.key).mT / x.shape[-1] ** 0.5
        found = torch.softmax(scores, dim=-1) @ (x @ self.value)
        state = found
        for _ in range(min(24, self.steps)):
            state = torch.tanh(state @ self.refine + found)
        return state
