# status: WRONG_VALUES
# class: N6 N1
# problem: ../tests/problems/unusual/router_in_bfloat16
# shapes: small
# backend: cpp
"""Gates in eight bits choose other experts wherever bfloat16 nearly ties, and where it does not."""
import torch
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(128, 16, bias=False).bfloat16()

    def forward(self, x):
        weight = self.gate.weight
        scale = weight.abs().amax() / 400
        narrow = (weight / scale).to(torch.float8_e4m3fn).bfloat16() * scale
        weights, experts = torch.topk(torch.softmax(F.linear(x, narrow), -1), 2, -1)
        return weights / weights.sum(-1, keepdim=True), experts
