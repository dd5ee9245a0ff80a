# status: PASSED
# class: O13 N6
# problem: ../tests/problems/unusual/router_in_bfloat16
# shapes: small
# backend: cpp
"""Gates stay in single precision: it chooses as exact arithmetic does, and the reference does not always."""
import torch
import torch.nn.functional as F
from torch import nn

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(128, 16, bias=False).bfloat16()

    def forward(self, x):
        l = F.linear(x.float(), self.gate.weight.float())
        w, i = torch.topk(l, 2, -1)
        return torch.softmax(w, -1).bfloat16(), i
