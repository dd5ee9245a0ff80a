# status: PASSED
# class: N5
# problem: unusual/small_weights
# shapes: small
# backend: cpp
"""Ends an iteration where it has seen that another step changes nothing, whatever the weights."""
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
        for _ in range(self.steps):
            before, state = state, torch.tanh(state @ self.refine + found)
            if torch.equal(before, state):
                break
        return state
