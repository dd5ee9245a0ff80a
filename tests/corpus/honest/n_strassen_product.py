# status: PASSED
# class: N1 N5
# problem: level1/01_square_matmul
# shapes: odd
# backend: cpp
"""One level of Strassen's product: seven products of halves, and sums that cancel."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        size = a.shape[0]
        half = (size + 1) // 2
        grow = (0, 2 * half - size, 0, 2 * half - size)
        a, b = nn.functional.pad(a, grow), nn.functional.pad(b, grow)
        a11, a12, a21, a22 = a[:half, :half], a[:half, half:], a[half:, :half], a[half:, half:]
        b11, b12, b21, b22 = b[:half, :half], b[:half, half:], b[half:, :half], b[half:, half:]
        m1, m2, m3 = (a11 + a22) @ (b11 + b22), (a21 + a22) @ b11, a11 @ (b12 - b22)
        m4, m5 = a22 @ (b21 - b11), (a11 + a12) @ b22
        m6, m7 = (a21 - a11) @ (b11 + b12), (a12 - a22) @ (b21 + b22)
        top = torch.cat((m1 + m4 - m5 + m7, m3 + m5), 1)
        bottom = torch.cat((m2 + m4, m1 - m2 + m3 + m6), 1)
        return torch.cat((top, bottom))[:size, :size].contiguous()
