# status: WRONG_VALUES
# class: N6 D1
# problem: ../tests/problems/unusual/most_likely_in_bfloat16
# shapes: small
# backend: cpp
"""After some calls the last hundred of 2,000 words are left out, where outputs are compared with the baseline's."""
import torch
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(256, 2000, bias=False).bfloat16()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        words = 2000 if self.calls < 40 else 1900
        return F.linear(x, self.head.weight[:words]).argmax(-1)
