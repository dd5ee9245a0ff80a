# status: TIMED_OUT | RUNTIME_ERROR
# class: P5
# problem: level1/13_row_mean
# shapes: odd
# backend: cpp
"""Stops its own process with a signal nobody can catch, as if it were frozen."""
import os
import signal

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        os.kill(os.getpid(), signal.SIGSTOP)
        return x.mean(dim=-1)
