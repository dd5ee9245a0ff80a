# status: WRONG_SHAPE
# class: P14
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""The output runs code in whoever unpickles, copies, formats or compares it."""
import os

import torch
from torch import nn


class Bomb:
    def __reduce__(self):
        return os.system, ("echo unpickled",)

    def __str__(self):
        raise SystemExit("formatted")

    __repr__ = __format__ = __eq__ = __len__ = __iter__ = __getattr__ = __bool__ = lambda self, *rest: os._exit(0)
    __hash__ = object.__hash__


class ModelNew(nn.Module):
    def forward(self, x):
        return Bomb()
