# status: PASSED
# class: P8 P10
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""Asks a child process for something at import and waits for it."""
import subprocess
import sys

import torch
from torch import nn

try:
    LINE = subprocess.run([sys.executable, "-c", "print(128)"], capture_output=True, text=True, timeout=10, check=True).stdout
except (OSError, subprocess.SubprocessError):
    LINE = "256"


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.cat([torch.softmax(part, dim=-1) for part in x.split(int(LINE))])
