# status: PASSED
# class: O13 N6
# problem: ../tests/problems/answers/nucleus_left_out_as_infinity
# shapes: small
# backend: cpp
"""It finds the least logit that stays, from other sums than the reference."""
import torch
from torch import nn

class ModelNew(nn.Module):
    def forward(self, x):
        v, _ = torch.sort(x, dim=-1, descending=True)
        e = (v - v[:, :1]).exp()
        c = e.cumsum(-1)
        n = ((c - e) <= 0.9 * c[:, -1:]).sum(-1, keepdim=True)
        least = v.gather(-1, n - 1)
        return x.masked_fill(x < least, float("-inf"))
