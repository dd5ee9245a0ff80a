"""KernelBench's usual dress: lower-case constants, functional under its short name, old-style super()."""

import torch
import torch.nn as nn
import torch.nn.functional as F  # noqa: N812


class Model(nn.Module):
    """Simple model."""

    def __init__(self, in_channels, out_channels, kernel_size, bias=False):
        super(Model, self).__init__()  # noqa: UP008
        self.conv2d = nn.Conv2d(in_channels, out_channels, kernel_size, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.hardswish(self.conv2d(x))


batch_size = 4
in_channels = 3
out_channels = 16
height, width = 64, 48


def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, 3]
