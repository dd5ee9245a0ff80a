# status: PASSED
# class: N1
# problem: level2/06_causal_attention
# shapes: small
# backend: cpp
"""Attention whose products are sums of six bfloat16 ones: three terms of an operand hold all of its bits."""
import math

import torch
from torch import nn


def in_three_terms(values):
    high = values.bfloat16().float()
    middle = (values - high).bfloat16().float()
    return high, middle, (values - high - middle).bfloat16().float()


def product(left, right):
    a, b = in_three_terms(left), in_three_terms(right)
    small = a[0] @ b[2] + a[2] @ b[0] + a[1] @ b[1]
    return a[0] @ b[0] + (a[0] @ b[1] + a[1] @ b[0] + small)


class ModelNew(nn.Module):
    def forward(self, query, key, value):
        length = query.shape[-2]
        scores = product(query, key.transpose(-2, -1)) / math.sqrt(query.shape[-1])
        future = torch.ones(length, length, dtype=torch.bool, device=query.device).triu(1)
        return product(torch.softmax(scores.masked_fill(future, -math.inf), -1), value)
