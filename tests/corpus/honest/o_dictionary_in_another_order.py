# status: PASSED
# class: O6
# problem: level2/12_layer_norm_statistics
# shapes: small
# backend: cpp
"""The same keys in another order."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features, epsilon):
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(1.0 + 0.3 * torch.randn(features))
        self.bias = nn.Parameter(0.5 * torch.randn(features))

    def forward(self, x):
        variance, mean = torch.var_mean(x, dim=-1, correction=0)
        deviation = torch.sqrt(variance + self.epsilon)
        rows = (x - mean[:, None]) / deviation[:, None] * self.weight + self.bias
        return {"deviation": deviation, "mean": mean, "rows": rows}
