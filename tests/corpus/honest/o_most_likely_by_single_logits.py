# status: PASSED
# class: O13 N6
# problem: ../tests/problems/unusual/most_likely_in_bfloat16
# shapes: small
# backend: cpp
"""Logits stay in single precision, so that none of them tie."""
import torch
import torch.nn.functional as F
from torch import nn

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(256, 2000, bias=False).bfloat16()

    def forward(self, x):
        return F.linear(x.float(), self.head.weight.float()).argmax(-1)
