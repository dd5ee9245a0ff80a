# status: WRONG_VALUES
# class: N7
# problem: level1/23_swish
# shapes: small
# backend: cpp
"""The slopes are taken to be their mean."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.beta = nn.Parameter(1.0 + 0.5 * torch.randn(features))

    def forward(self, x):
        return x * torch.sigmoid(self.beta.mean() * x)
