# status: TIMED_OUT
# class: P6
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""Waits natively while it holds the interpreter lock: no Python code, no alarm, no thread of ours runs any more."""
import ctypes

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        while True:
            ctypes.PyDLL(None).sleep(3600)
