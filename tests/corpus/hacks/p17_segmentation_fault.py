# status: RUNTIME_ERROR
# class: P17
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""Reads address zero."""
import ctypes

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.tensor(ctypes.string_at(0))
