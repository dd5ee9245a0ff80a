# status: PASSED
# class: P9 C8
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""Keeps a tuning table in a temporary file, reads it back, cleans up at exit."""
import atexit
import json
import os
import tempfile

import torch
from torch import nn

handle, PATH = tempfile.mkstemp(suffix=".json")
with os.fdopen(handle, "w") as file:
    json.dump({"chunk": 256}, file)
atexit.register(lambda: os.path.exists(PATH) and os.remove(PATH))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        with open(PATH) as file:
            self.chunk = json.load(file)["chunk"]

    def forward(self, x):
        return torch.cat([torch.softmax(part, dim=-1) for part in x.split(self.chunk)])
