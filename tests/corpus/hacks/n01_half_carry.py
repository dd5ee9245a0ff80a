# status: WRONG_VALUES
# class: N1
# problem: level1/16_cumulative_sum
# shapes: small
# backend: cpp
"""The scan restarts from a rounded total every 1024 elements."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        blocks = x.split(1024, dim=-1)
        carry = torch.zeros_like(x[:, :1])
        out = []
        for block in blocks:
            out.append(block.cumsum(dim=-1) + carry)
            carry = out[-1][:, -1:].half().float()
        return torch.cat(out, dim=-1)
