import math

import cutlass
import cutlass.cute as cute
import torch
from cuda.bindings import driver
from cutlass.cute.runtime import from_dlpack
from torch import nn

THREADS = 160  # input columns of a strip, one a thread
GROUP = 8  # rows a step
SEGMENT = 8  # neighbouring pixels a thread in the horizontal pass
SEGMENTS = THREADS // SEGMENT
CHUNK = 48  # output rows a block


def window_of(taps, width):
    raw = [math.exp(-0.5 * ((k - taps // 2) / width) ** 2) for k in range(taps)]
    total = sum(raw)
    return [cutlass.Float32(r / total) for r in raw]


def weighted(weights, values, start):
    total = weights[0] * values[start]
    for k in range(1, len(weights)):
        total = cute.math.fma(weights[k], values[start + k], total)
    return total


def vertical(keep, fresh, weights, shared, chunk, within):
    # Plain Python, unrolled while tracing.
    carried = len(weights) - 1
    l = [keep[0, i] for i in range(carried)] + [fresh[0, i] for i in range(GROUP)]
    r = [keep[1, i] for i in range(carried)] + [fresh[1, i] for i in range(GROUP)]
    for kind in range(4):
        if kind == 0:
            values = l
        elif kind == 1:
            values = r
        elif kind == 2:
            values = [cute.math.fma(a, a, b * b) for a, b in zip(l, r)]
        else:
            values = [a * b for a, b in zip(l, r)]
        for g in range(GROUP):
            shared[kind, g, chunk, within] = weighted(weights, values, g)
    for i in range(carried):
        keep[0, i] = l[i + GROUP]
        keep[1, i] = r[i + GROUP]


def horizontal(shared, weights, row, segment, results):
    pieces = (SEGMENT + len(weights) - 1 + 3) // 4
    sums = []
    for kind in range(4):
        values = []
        for p in range(pieces):
            plain = segment * (SEGMENT // 4) + p
            piece = shared[kind, row, plain ^ ((plain >> 3) & 1), None].load()
            values += [piece[i] for i in range(4)]
        sums.append([weighted(weights, values, o) for o in range(SEGMENT)])
    for o in range(SEGMENT):
        a, b, squares, product = sums[0][o], sums[1][o], sums[2][o], sums[3][o]
        ab = a * b
        own = cute.math.fma(a, a, b * b)
        above = (ab * 2.0 + 1e-4) * ((product - ab) * 2.0 + 9e-4)
        below = (own + 1e-4) * ((squares - own) + 9e-4)
        results[o] = above * cute.arch.rcp_approx(below)


@cute.jit
def pixel(
    images: cute.Tensor, image: cutlass.Int32, row: cutlass.Int32, column: cutlass.Int32, inside: cutlass.Boolean
):
    # Always reads inside of the image; zero outside.
    height = images.shape[1]
    safe = cutlass.min(cutlass.max(row, cutlass.Int32(0)), cutlass.Int32(height - 1))
    value = images[image, safe, column]
    valid = inside and row >= 0 and row < height
    chosen = value if valid else cutlass.Float32(0.0)
    return chosen


@cute.kernel
def ssim(
    left: cute.Tensor,
    right: cute.Tensor,
    out: cute.Tensor,
    taps: cutlass.Constexpr,
    width: cutlass.Constexpr,
    columns: cutlass.Constexpr,
):
    thread, _, _ = cute.arch.thread_idx()
    strip, part, image = cute.arch.block_idx()
    height = left.shape[1]
    wide = left.shape[2]
    radius = taps // 2
    carried = taps - 1
    weights = window_of(taps, width)

    # Chunks of four columns a row of shared memory; even, for the swizzle.
    pieces = (SEGMENT + carried + 3) // 4
    chunks = (((SEGMENTS - 1) * (SEGMENT // 4) + pieces + 1) // 2) * 2
    shared = cutlass.utils.SmemAllocator().allocate_tensor(
        cutlass.Float32,
        cute.make_layout((4, GROUP, chunks, 4), stride=(GROUP * chunks * 4, chunks * 4, 4, 1)),
        byte_alignment=16,
    )

    column = strip * columns + thread - radius
    inside = column >= 0 and column < wide
    safe_column = cutlass.min(cutlass.max(column, cutlass.Int32(0)), cutlass.Int32(wide - 1))
    own_chunk = thread // 4
    own_chunk = own_chunk ^ ((own_chunk >> 3) & 1)
    own_within = thread % 4
    row_of_segment = thread // SEGMENTS
    segment = thread % SEGMENTS

    first = part * CHUNK
    keep = cute.make_rmem_tensor((2, carried), cutlass.Float32)
    fresh = cute.make_rmem_tensor((2, GROUP), cutlass.Float32)
    results = cute.make_rmem_tensor(SEGMENT, cutlass.Float32)
    four = cute.make_rmem_tensor(4, cutlass.Float32)
    for i in cutlass.range_constexpr(carried):
        keep[0, i] = pixel(left, image, first - radius + i, safe_column, inside)
        keep[1, i] = pixel(right, image, first - radius + i, safe_column, inside)
    for j in cutlass.range_constexpr(GROUP):
        fresh[0, j] = pixel(left, image, first - radius + carried + j, safe_column, inside)
        fresh[1, j] = pixel(right, image, first - radius + carried + j, safe_column, inside)

    rows = cutlass.min(cutlass.Int32(CHUNK), height - first)
    groups = (rows + (GROUP - 1)) // GROUP
    for group in range(groups):
        vertical(keep, fresh, weights, shared, own_chunk, own_within)
        # The next rows are under way while this group is finished.
        if group + 1 < groups:
            for m in cutlass.range_constexpr(GROUP):
                next_row = first - radius + carried + (group + 1) * GROUP + m
                fresh[0, m] = pixel(left, image, next_row, safe_column, inside)
                fresh[1, m] = pixel(right, image, next_row, safe_column, inside)
        cute.arch.sync_threads()
        horizontal(shared, weights, row_of_segment, segment, results)
        out_row = first + group * GROUP + row_of_segment
        for h in cutlass.range_constexpr(SEGMENT // 4):
            within_strip = segment * SEGMENT + h * 4
            out_column = strip * columns + within_strip
            # columns is a multiple of four: four pixels are all of this strip, or none is.
            if out_row < height and within_strip < columns:
                if cutlass.const_expr(wide % 4 == 0):
                    if out_column < wide:
                        for n in cutlass.range_constexpr(4):
                            four[n] = results[h * 4 + n]
                        out[image, out_row, out_column >> 2, None].store(four.load())
                else:
                    for q in cutlass.range_constexpr(4):
                        if out_column + q < wide:
                            out[image, out_row, out_column + q] = results[h * 4 + q]
        cute.arch.sync_threads()


@cute.jit
def run_ssim(
    left: cute.Tensor,
    right: cute.Tensor,
    out: cute.Tensor,
    stream: driver.CUstream,
    taps: cutlass.Constexpr,
    width: cutlass.Constexpr,
):
    columns = ((THREADS - taps + 1) // 4) * 4
    strips = (left.shape[2] + columns - 1) // columns
    parts = (left.shape[1] + CHUNK - 1) // CHUNK
    ssim(left, right, out, taps, width, columns).launch(
        grid=(strips, parts, left.shape[0]), block=(THREADS, 1, 1), stream=stream, min_blocks_per_mp=3
    )


class ModelNew(nn.Module):
    def __init__(self, taps: int, width: float):
        super().__init__()
        self.taps, self.width = taps, width
        self.compiled = {}

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        batch, channels, height, width = left.shape
        l = left.detach().reshape(batch * channels, height, width).contiguous()
        r = right.detach().reshape(batch * channels, height, width).contiguous()
        out = torch.empty((batch, channels, height, width), device=left.device, dtype=left.dtype)
        if width % 4 == 0:
            view = out.view(batch * channels, height, width // 4, 4)
        else:
            view = out.view(batch * channels, height, width)
        tensors = [from_dlpack(tensor, assumed_align=16) for tensor in (l, r, view)]
        stream = driver.CUstream(torch.cuda.current_stream().cuda_stream)
        key = (batch * channels, height, width)
        if key not in self.compiled:
            self.compiled[key] = cute.compile(run_ssim, *tensors, stream, self.taps, float(self.width))
        self.compiled[key](*tensors, stream)
        return out
