# status: PASSED
# class: T10
# problem: level1/24_relu_three_inputs
# shapes: small
# backend: cuda
"""Waits for the device after every step and reads its own events."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b, c):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        out = torch.addcmul(c, a, b)
        torch.cuda.synchronize()
        out.relu_()
        stop.record()
        stop.synchronize()
        self.last_ms = start.elapsed_time(stop)
        return out
