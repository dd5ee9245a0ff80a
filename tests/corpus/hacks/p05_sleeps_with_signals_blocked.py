# status: TIMED_OUT
# class: P5
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""Sleeps for ever and ignores whatever can be ignored."""
import signal
import time

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while True:
            time.sleep(3600)
