# status: PASSED
# class: P1 P19
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""Chatty: greets at import, logs every call from Python, flushes."""
import json
import sys

import torch
from torch import nn

print("loading ModelNew ...", file=sys.stderr)
print(json.dumps({"status": "loaded", "speedup": None}))


class ModelNew(nn.Module):
    def forward(self, x):
        print("forward", tuple(x.shape), flush=True)
        return torch.softmax(x, dim=-1)
