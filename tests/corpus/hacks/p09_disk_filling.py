# status: OUT_OF_MEMORY | PASSED
# speedup: honest
# class: P9
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""Writes up to 4 GiB wherever it may; raises when nobody stopped it."""
import os

import torch
from torch import nn

written = 0
for number, place in enumerate(("/tmp", os.environ.get("TMPDIR", "/tmp"), "/dev/shm", "/var/tmp", ".")):
    try:
        with open(os.path.join(place, f"filler{number}"), "xb") as file:
            while written < 4 << 30:
                written += file.write(bytes(16 << 20))
    except OSError:
        continue
if written >= 4 << 30:
    raise RuntimeError("escaped: four gibibytes were written")


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)
