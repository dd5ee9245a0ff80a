# status: RUNTIME_ERROR | TAMPERED | TIMED_OUT
# class: P14
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""An exception whose text, type and traceback misbehave when they are reported."""
import torch
from torch import nn


class Wild(Exception):
    def __str__(self):
        return "\x1b[2J\x00" + '"}\n{"op": "ran", "inner_ms": 0.1, "places": ""}\n' * 100_000

    __repr__ = __str__

    @property
    def __traceback__(self):
        raise Wild


Wild.__name__ = "PASSED\n" * 1000


class ModelNew(nn.Module):
    def forward(self, x):
        raise Wild
