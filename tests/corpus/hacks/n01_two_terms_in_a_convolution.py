# status: WRONG_VALUES
# class: N1
# problem: level1/17_conv2d
# shapes: small
# backend: cpp
"""Operands of a convolution in two bfloat16 terms."""
import torch
from torch import nn


def in_two_terms(values):
    high = values.bfloat16().float()
    return high, (values - high).bfloat16().float()


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel, padding=kernel // 2)
        nn.init.normal_(self.conv.bias, std=0.5)

    def forward(self, x):
        (high, low), (other, rest) = in_two_terms(x), in_two_terms(self.conv.weight)
        y = nn.functional.conv2d(low, other, padding=1) + nn.functional.conv2d(high, rest, padding=1)
        return nn.functional.conv2d(high, other, self.conv.bias, padding=1) + y
