# status: RUNTIME_ERROR | TIMED_OUT | OUT_OF_MEMORY | PASSED
# speedup: honest
# class: P8
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""Starts threads until nothing more is allowed."""
import threading
import time

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        for _ in range(5000):
            try:
                threading.Thread(target=time.sleep, args=(20,), daemon=True).start()
            except RuntimeError:
                break

    def forward(self, x):
        return torch.softmax(x, dim=-1)
