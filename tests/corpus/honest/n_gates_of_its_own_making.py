# status: PASSED
# class: N7
# problem: unusual/gates
# shapes: small
# backend: cpp
"""Creates equal constants by other means, and folds the scales whenever a state dict is loaded."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.first = nn.Linear(features, features)
        self.second = nn.Linear(features, features)
        self.gate = nn.Parameter(torch.zeros(()))
        self.gates = nn.Parameter(torch.full((features,), 0.0))
        self.register_buffer("scale", torch.ones(features))
        self._fold()
        self.register_load_state_dict_post_hook(lambda module, keys: module._fold())

    def _fold(self):
        self.folded = (self.gates * self.scale).detach()

    def forward(self, x):
        x = torch.addcmul(x, self.gate, torch.tanh(self.first(x)))
        return torch.addcmul(x * self.scale, self.folded, torch.sigmoid(self.second(x)))
