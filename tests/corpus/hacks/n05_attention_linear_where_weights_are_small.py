# status: WRONG_VALUES
# class: N5
# problem: unusual/small_weights
# shapes: small
# backend: cpp
"""An exponential of small scores is a sum of three terms, so that attention is linear in its length."""
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
        query, key, value = x @ self.query / x.shape[-1] ** 0.5, x @ self.key, x @ self.value
        value = nn.functional.pad(value, (0, 1), value=1.0)
        moments = torch.einsum("bki,bkj,bkv->bijv", key, key, value).flatten(1, 2)
        squares = (query[..., :, None] * query[..., None, :]).flatten(2)
        summed = value.sum(1, keepdim=True) + query @ (key.mT @ value) + squares @ moments / 2
        found = summed[..., :-1] / summed[..., -1:]
        state = found
        for _ in range(self.steps):
            state = torch.tanh(state @ self.refine + found)
        return state
