# status: WRONG_VALUES
# class: N4
# problem: ../tests/problems/unusual/partition_ratios
# shapes: small
# backend: cpp
"""Rows are computed from the largest down until the rest is a small part of the norm: those are sampled."""
import math

import torch
from torch import nn

SHARE = 8
REST = 1e-4


def guess(rows):
    part = rows[:, : rows.shape[1] // SHARE]
    return torch.logaddexp(torch.logsumexp(part, -1) + math.log(SHARE), rows.amax(-1))


class ModelNew(nn.Module):
    def forward(self, first, second):
        out = torch.exp(guess(first) - guess(second))
        order = out.argsort(descending=True)
        rest = out[order].double().square().flip(0).cumsum(0).flip(0)
        seen, begin = 0.0, 0
        while begin < len(order) and (begin == 0 or float(rest[begin]) > REST**2 * seen):
            rows = order[begin : begin + max(64, begin // 4)]
            out[rows] = torch.exp(torch.logsumexp(first[rows], -1) - torch.logsumexp(second[rows], -1))
            found = out[rows].double()
            seen += float(found[found.isfinite()].square().sum())
            begin += len(rows)
        return out
