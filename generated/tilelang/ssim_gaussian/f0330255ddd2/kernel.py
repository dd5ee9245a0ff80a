import math
import struct

import tilelang
import tilelang.language as T
import torch
from torch import nn

ROWS = 16
COLUMNS = 256


def gaussian(taps, width):
    values = [math.exp(-0.5 * ((i - taps // 2) / width) ** 2) for i in range(taps)]
    total = sum(values)
    return [struct.unpack("f", struct.pack("f", v / total))[0] for v in values]


def blur(buffer, start, weights):
    """The expression of one blurred value: a chain of fused multiply-adds over constants."""
    result = buffer[start] * weights[0]
    for k in range(1, len(weights)):
        result = result + buffer[start + k] * weights[k]
    return result


@tilelang.jit(out_idx=[-1], pass_configs={tilelang.PassConfigKey.TL_DISABLE_SAFE_MEMORY_ACCESS: True})
def similarity(planes, height, width, taps, sigma):
    half = taps // 2
    weights = gaussian(taps, sigma)
    span = ROWS + taps - 1  # rows of the images that a tile reads
    pieces = (8 + taps - 1 + 3) // 4  # 16-byte reads for eight outputs
    needed = COLUMNS - 8 + 4 * pieces  # columns of the blurred tile that are read
    pitch = needed
    while pitch % 8 != 4:
        pitch += 4
    threads = (needed + 31) // 32 * 32
    full = height % ROWS == 0 and width % COLUMNS == 0
    wide = width % 8 == 0
    row_list = tuple(range(span))
    first_rows = tuple(range(taps - 1))
    out_rows = tuple(range(ROWS))
    maps = (0, 1, 2, 3)
    octet_list = tuple(range(8))
    piece_list = tuple(range(pieces))

    @T.prim_func
    def kernel(
        left: T.Tensor((planes, height, width), "float32"),
        right: T.Tensor((planes, height, width), "float32"),
        out: T.Tensor((planes, height, width), "float32"),
    ):
        with T.Kernel(T.ceildiv(width, COLUMNS), T.ceildiv(height, ROWS), planes, threads=threads) as (bx, by, plane):
            T.annotate_min_blocks_per_sm(2)
            tx = T.get_thread_binding(0)
            middle = T.alloc_shared((4, ROWS, pitch), "float32")
            a = T.alloc_local((span,), "float32")
            b = T.alloc_local((span,), "float32")
            squares = T.alloc_local((span,), "float32")
            products = T.alloc_local((span,), "float32")
            segment = T.alloc_local((4 * pieces,), "float32")
            blurred = T.alloc_local((32,), "float32")
            result = T.alloc_local((8,), "float32")

            column = bx * COLUMNS + tx - half
            safe_column = T.max(T.min(column, width - 1), 0)
            for i in row_list:
                y = by * ROWS + (i - half)
                safe_y = T.max(T.min(y, height - 1), 0)
                a[i] = T.if_then_else(
                    y >= 0 and y < height and column >= 0 and column < width, left[plane, safe_y, safe_column], 0.0
                )
                b[i] = T.if_then_else(
                    y >= 0 and y < height and column >= 0 and column < width, right[plane, safe_y, safe_column], 0.0
                )
            for i in first_rows:
                squares[i] = a[i] * a[i] + b[i] * b[i]
                products[i] = a[i] * b[i]
            for o in out_rows:
                last = o + taps - 1
                squares[last] = a[last] * a[last] + b[last] * b[last]
                products[last] = a[last] * b[last]
                if tx < needed:
                    middle[0, o, tx] = blur(a, o, weights)
                    middle[1, o, tx] = blur(b, o, weights)
                    middle[2, o, tx] = blur(squares, o, weights)
                    middle[3, o, tx] = blur(products, o, weights)

            T.sync_threads()

            if tx < 256:
                for step in T.serial(2):
                    row = (step * 4 + (tx // 64) % 4) * 2 + (tx // 4) % 2
                    octet = tx % 4 + ((tx // 8) % 4) * 4 + ((tx // 32) % 2) * 16
                    for m in maps:
                        for q in piece_list:
                            for v in T.vectorized(4):
                                segment[q * 4 + v] = middle[m, row, octet * 8 + q * 4 + v]
                        for j in octet_list:
                            blurred[m * 8 + j] = blur(segment, j, weights)
                    for j in octet_list:
                        result[j] = (
                            (2.0 * blurred[j] * blurred[8 + j] + 1e-4)
                            * (2.0 * (blurred[24 + j] - blurred[j] * blurred[8 + j]) + 9e-4)
                        ) * T.fast_rcp(
                            (blurred[j] * blurred[j] + blurred[8 + j] * blurred[8 + j] + 1e-4)
                            * (
                                blurred[16 + j]
                                - (blurred[j] * blurred[j] + blurred[8 + j] * blurred[8 + j])
                                + 9e-4
                            )
                        )
                    if full:
                        for q in (0, 1):
                            for v in T.vectorized(4):
                                out[plane, by * ROWS + row, bx * COLUMNS + octet * 8 + q * 4 + v] = result[q * 4 + v]
                    else:
                        if by * ROWS + row < height:
                            if wide:
                                if bx * COLUMNS + octet * 8 < width:
                                    for q in (0, 1):
                                        for v in T.vectorized(4):
                                            out[plane, by * ROWS + row, bx * COLUMNS + octet * 8 + q * 4 + v] = result[
                                                q * 4 + v
                                            ]
                            else:
                                for j in octet_list:
                                    if bx * COLUMNS + octet * 8 + j < width:
                                        out[plane, by * ROWS + row, bx * COLUMNS + octet * 8 + j] = result[j]

    return kernel


class ModelNew(nn.Module):
    def __init__(self, taps: int, width: float):
        super().__init__()
        self.taps, self.width = taps, width
        self.kernels = {}

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        batch, channels, height, width = left.shape
        key = (batch * channels, height, width)
        if key not in self.kernels:
            self.kernels[key] = similarity(batch * channels, height, width, self.taps, float(self.width))
        a = left.contiguous().view(key)
        b = right.contiguous().view(key)
        return self.kernels[key](a, b).view(left.shape)
