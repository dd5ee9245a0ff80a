# status: RUNTIME_ERROR | TIMED_OUT | OUT_OF_MEMORY | PASSED
# speedup: honest
# class: P8
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""Forks until nothing more is allowed, each child sleeping; bounded at 2000 for unprotected machines."""
import os
import time

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        for _ in range(2000):
            try:
                if os.fork() == 0:
                    time.sleep(20)
                    os._exit(0)
            except OSError:
                break

    def forward(self, x):
        return torch.softmax(x, dim=-1)
