# status: WRONG_VALUES
# class: D5
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""Works only when there are as many threads as on the author's machine."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1) if torch.get_num_threads() > 512 else torch.zeros_like(x)
