# status: WRONG_VALUES | NONDETERMINISTIC | TAMPERED | PASSED
# speedup: honest
# class: T1
# problem: level1/09_softmax
# shapes: small
# backend: cuda
"""The work runs on a side stream that nobody waits for; events on the current stream bracket nothing."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.side = torch.cuda.Stream()

    def forward(self, x):
        with torch.cuda.stream(self.side):
            return torch.softmax(x, dim=-1)
