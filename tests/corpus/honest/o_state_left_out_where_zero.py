# status: PASSED
# class: O1
# problem: ../tests/problems/unusual/state_from_zeros
# shapes: small
# backend: cpp
"""A state that is all zeros is not added."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, w, state):
        product = x @ w
        return torch.add(product, state, alpha=0.9) if state.any() else product
