# status: PASSED
# class: N1 N5
# problem: level1/17_conv2d
# shapes: small
# backend: cpp
"""Winograd's F(4x4, 3x3): a quarter of the products, and transforms that amplify their rounding."""
import torch
from torch import nn

INPUT = ((4, 0, -5, 0, 1, 0), (0, -4, -4, 1, 1, 0), (0, 4, -4, -1, 1, 0), (0, -2, -1, 2, 1, 0), (0, 2, -1, -2, 1, 0), (0, 4, 0, -5, 0, 1))
KERNEL = ((1 / 4, 0, 0), (-1 / 6, -1 / 6, -1 / 6), (-1 / 6, 1 / 6, -1 / 6), (1 / 24, 1 / 12, 1 / 6), (1 / 24, -1 / 12, 1 / 6), (0, 0, 1))
OUTPUT = ((1, 1, 1, 1, 1, 0), (0, 1, -1, 2, -2, 0), (0, 1, 1, 4, 4, 0), (0, 1, -1, 8, -8, 1))


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
        down, across = -(-height // 4), -(-width // 4)
        grown = nn.functional.pad(x, (1, 1 + 4 * across - width, 1, 1 + 4 * down - height))
        tiles = both_sides(INPUT, grown.unfold(2, 6, 4).unfold(3, 6, 4))
        tiles = tiles.permute(4, 5, 1, 0, 2, 3).reshape(36, channels, -1)
        kernels = both_sides(KERNEL, self.conv.weight).permute(2, 3, 0, 1).reshape(36, -1, channels)
        products = torch.bmm(kernels, tiles).view(6, 6, -1, images, down, across).permute(3, 2, 4, 5, 0, 1)
        out = both_sides(OUTPUT, products).permute(0, 1, 2, 4, 3, 5).reshape(images, -1, 4 * down, 4 * across)
        return out[:, :, :height, :width] + self.conv.bias[:, None, None]
