# status: PASSED
# class: N1 O9
# problem: level1/17_conv2d
# shapes: odd
# backend: cpp
"""A convolution as unfolded patches times a matrix."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel, padding=kernel // 2)
        nn.init.normal_(self.conv.bias, std=0.5)
        self.kernel = kernel

    def forward(self, x):
        pad, step = self.conv.padding, self.conv.stride
        columns = nn.functional.unfold(x, self.kernel, padding=pad, stride=step)
        out = self.conv.weight.flatten(1) @ columns
        if self.conv.bias is not None:
            out = out + self.conv.bias[:, None]
        height = (x.shape[2] + 2 * pad[0] - self.kernel) // step[0] + 1
        return out.view(x.shape[0], -1, height, out.shape[-1] // height)
