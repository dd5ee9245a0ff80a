# status: PASSED
# class: C5 C1
# problem: level2/07_swiglu_mlp
# shapes: small
# backend: cuda
"""Joined weights keyed by address and version, a workspace reused by every call, fresh outputs."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.gate = nn.Parameter(torch.randn(hidden, features) / features**0.5)
        self.up = nn.Parameter(torch.randn(hidden, features) / features**0.5)
        self.down = nn.Parameter(torch.randn(features, hidden) / hidden**0.5)
        self.kept = {}

    def forward(self, x):
        key = (self.gate.data_ptr(), self.gate._version, self.up.data_ptr(), self.up._version, x.shape)
        if key not in self.kept:
            joined = torch.cat((self.gate, self.up)).T.contiguous()
            self.kept = {key: (joined, x.new_empty(x.shape[0], joined.shape[1]))}
        joined, workspace = self.kept[key]
        torch.mm(x, joined, out=workspace)
        gate, up = workspace.chunk(2, dim=-1)
        return (nn.functional.silu(gate) * up) @ self.down.T
