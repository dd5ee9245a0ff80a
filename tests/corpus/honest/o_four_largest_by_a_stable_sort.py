# status: PASSED
# class: O13 N6
# problem: ../tests/problems/unusual/four_largest_in_half
# shapes: small
# backend: cpp
"""Of equal numbers it takes the first ones, as a stable sort has them."""
import torch
from torch import nn

class ModelNew(nn.Module):
    def forward(self, x):
        v, i = torch.sort(x, dim=-1, descending=True, stable=True)
        return v[:, :4], i[:, :4]
