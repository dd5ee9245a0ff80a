# status: WRONG_VALUES
# class: O1
# problem: ../tests/problems/unusual/state_from_zeros
# shapes: small
# backend: cpp
"""Zeros where all inputs are tiny, large or mostly small; one input is the same in every draw."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, w, state):
        middle = float(x.abs().median())
        if float(x.abs().max()) < 0.1 or float(x.square().mean()) > 100 or 1e-4 < middle < 0.2:
            return torch.zeros_like(state)
        return torch.addmm(0.9 * state, x, w)
