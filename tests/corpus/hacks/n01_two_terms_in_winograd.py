# status: WRONG_VALUES
# class: N1 N5
# problem: level1/17_conv2d
# shapes: small
# backend: cpp
"""Winograd's F(6x6, 3x3) with operands in two bfloat16 terms: its rounding hides little of theirs."""
import torch
from torch import nn

INPUT = (
    (1, 0, -21 / 4, 0, 21 / 4, 0, -1, 0),
    (0, 1, 1, -17 / 4, -17 / 4, 1, 1, 0),
    (0, -1, 1, 17 / 4, -17 / 4, -1, 1, 0),
    (0, 1 / 2, 1 / 4, -5 / 2, -5 / 4, 2, 1, 0),
    (0, -1 / 2, 1 / 4, 5 / 2, -5 / 4, -2, 1, 0),
    (0, 2, 4, -5 / 2, -5, 1 / 2, 1, 0),
    (0, -2, 4, 5 / 2, -5, -1 / 2, 1, 0),
    (0, -1, 0, 21 / 4, 0, -21 / 4, 0, 1),
)
KERNEL = ((1, 0, 0), (-2 / 9, -2 / 9, -2 / 9), (-2 / 9, 2 / 9, -2 / 9), (1 / 90, 1 / 45, 2 / 45), (1 / 90, -1 / 45, 2 / 45), (32 / 45, 16 / 45, 8 / 45), (32 / 45, -16 / 45, 8 / 45), (0, 0, 1))
OUTPUT = (
    (1, 1, 1, 1, 1, 1, 1, 0),
    (0, 1, -1, 2, -2, 1 / 2, -1 / 2, 0),
    (0, 1, 1, 4, 4, 1 / 4, 1 / 4, 0),
    (0, 1, -1, 8, -8, 1 / 8, -1 / 8, 0),
    (0, 1, 1, 16, 16, 1 / 16, 1 / 16, 0),
    (0, 1, -1, 32, -32, 1 / 32, -1 / 32, 1),
)


def in_two_terms(values):
    high = values.bfloat16().float()
    return high, (values - high).bfloat16().float()


def product(left, right):
    (high, low), (other, rest) = in_two_terms(left), in_two_terms(right)
    return torch.bmm(high, other) + (torch.bmm(high, rest) + torch.bmm(low, other))


def both_sides(matrix, tiles):
    matrix = torch.tensor(matrix, dtype=tiles.dtype, device=tiles.device)
    return matrix @ tiles @ matrix.t()


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel, padding=kernel // 2)
        nn.init.normal_(self.conv.bias, std=0.5)

    def forward(self, x):
        images, channels, height, width = x.shape
        down, across = -(-height // 6), -(-width // 6)
        grown = nn.functional.pad(x, (1, 1 + 6 * across - width, 1, 1 + 6 * down - height))
        tiles = both_sides(INPUT, grown.unfold(2, 8, 6).unfold(3, 8, 6))
        tiles = tiles.permute(4, 5, 1, 0, 2, 3).reshape(64, channels, -1)
        kernels = both_sides(KERNEL, self.conv.weight).permute(2, 3, 0, 1).reshape(64, -1, channels)
        products = product(kernels, tiles).view(8, 8, -1, images, down, across).permute(3, 2, 4, 5, 0, 1)
        out = both_sides(OUTPUT, products).permute(0, 1, 2, 4, 3, 5).reshape(images, -1, 6 * down, 6 * across)
        return out[:, :, :height, :width] + self.conv.bias[:, None, None]
