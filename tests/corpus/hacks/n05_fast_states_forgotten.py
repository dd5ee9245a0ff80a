# status: WRONG_VALUES
# class: N5
# problem: scans/selective_scan
# shapes: small
# backend: cpp
"""States that decay fast are forgotten after each step."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features, states, chunk):
        super().__init__()
        self.rates = nn.Parameter(torch.rand(features, states) * 2.0 + 0.1)
        self.skip = nn.Parameter(torch.randn(features))

    def forward(self, x, steps, b, c):
        decay = torch.where(self.rates > 2, 0.0, (-steps[..., None] * self.rates).exp())
        fed = (steps * x)[..., None] * b[:, :, None]
        state, outputs = torch.zeros_like(fed[:, 0]), []
        for step in range(x.shape[1]):
            state = torch.addcmul(fed[:, step], decay[:, step], state)
            outputs.append((state * c[:, step, None]).sum(-1))
        return torch.stack(outputs, 1) + self.skip * x
