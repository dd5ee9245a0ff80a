import math

import cutlass
import cutlass.cute as cute
import torch
from cuda.bindings import driver
from cutlass.cute.runtime import from_dlpack
from torch import nn

IGNORED = -100
THREADS = 256
WARPS = THREADS // 32
# Vectors that a thread reads at once.
FLIGHT = 4
LOG2E = math.log2(math.e)
# Stands for minus infinity, without its indefinite differences.
LOWEST = -3.0e38


@cute.kernel
def loss_of_row(
    logits: cute.Tensor,
    labels: cute.Tensor,
    out: cute.Tensor,
    kept: cutlass.Float32,
    smoothing: cutlass.Float32,
    penalty: cutlass.Float32,
):
    # Logits are [tokens, vectors, width]. A thread keeps the peak p of what it saw, the sum of exp(x - p), and the sum
    # of x.
    thread, _, _ = cute.arch.thread_idx()
    row, _, _ = cute.arch.block_idx()
    lane = cute.arch.lane_idx()
    warp = cute.arch.warp_idx()
    vectors, width = logits.shape[1], logits.shape[2]
    allocator = cutlass.utils.SmemAllocator()
    peaks = allocator.allocate_tensor(cutlass.Float32, cute.make_layout(WARPS))
    parts = allocator.allocate_tensor(cutlass.Float32, cute.make_layout((2, WARPS)))

    # Nothing of an ignored row is read: both loops end where they begin.
    label = labels[row].to(cutlass.Int32)
    whole = cutlass.Int32(vectors // (THREADS * FLIGHT) * (THREADS * FLIGHT))
    end = cutlass.Int32(vectors)
    if label == IGNORED:
        whole = cutlass.Int32(0)
        end = cutlass.Int32(0)

    peak = cutlass.Float32(LOWEST)
    total = cutlass.Float32(0.0)
    plain = cutlass.Float32(0.0)
    for base in range(thread, whole, THREADS * FLIGHT):
        pieces = []
        for u in cutlass.range_constexpr(FLIGHT):
            pieces.append(logits[(row, base + u * THREADS, None)].load().to(cutlass.Float32))
        top = peak
        for u in cutlass.range_constexpr(FLIGHT):
            for e in cutlass.range_constexpr(width):
                top = cute.arch.fmax(top, pieces[u][e])
        total = total * cute.math.exp2((peak - top) * LOG2E, fastmath=True)
        for u in cutlass.range_constexpr(FLIGHT):
            piece_total = cutlass.Float32(0.0)
            piece_plain = cutlass.Float32(0.0)
            for e in cutlass.range_constexpr(width):
                piece_total += cute.math.exp2((pieces[u][e] - top) * LOG2E, fastmath=True)
                piece_plain += pieces[u][e]
            total += piece_total
            plain += piece_plain
        peak = top
    for vector in range(whole + thread, end, THREADS):
        piece = logits[(row, vector, None)].load().to(cutlass.Float32)
        top = peak
        for e in cutlass.range_constexpr(width):
            top = cute.arch.fmax(top, piece[e])
        total = total * cute.math.exp2((peak - top) * LOG2E, fastmath=True)
        for e in cutlass.range_constexpr(width):
            total += cute.math.exp2((piece[e] - top) * LOG2E, fastmath=True)
            plain += piece[e]
        peak = top

    # The block's peak, to which each thread's sum is moved before they are added.
    warp_peak = cute.arch.warp_reduction_max(peak)
    if lane == 0:
        peaks[warp] = warp_peak
    cute.arch.sync_threads()
    top = peaks[0]
    for w in cutlass.range_constexpr(1, WARPS):
        top = cute.arch.fmax(top, peaks[w])
    warp_total = cute.arch.warp_reduction_sum(total * cute.math.exp2((peak - top) * LOG2E, fastmath=True))
    warp_plain = cute.arch.warp_reduction_sum(plain)
    if lane == 0:
        parts[0, warp] = warp_total
        parts[1, warp] = warp_plain
    cute.arch.sync_threads()
    if thread == 0:
        loss = cutlass.Float32(0.0)
        if label != IGNORED:
            all_total = cutlass.Float32(0.0)
            all_plain = cutlass.Float32(0.0)
            for w in cutlass.range_constexpr(WARPS):
                all_total += parts[0, w]
                all_plain += parts[1, w]
            normalizer = top + cute.math.log(all_total)
            target = cutlass.max(label, 0)
            own = logits[row, target // width, target % width].to(cutlass.Float32)
            smooth = normalizer - all_plain / (vectors * width)
            loss = kept * (normalizer - own) + smoothing * smooth + penalty * (normalizer * normalizer)
        out[row] = loss


@cute.jit
def smoothed_loss(
    logits: cute.Tensor,
    labels: cute.Tensor,
    out: cute.Tensor,
    kept: cutlass.Float32,
    smoothing: cutlass.Float32,
    penalty: cutlass.Float32,
    stream: driver.CUstream,
):
    loss_of_row(logits, labels, out, kept, smoothing, penalty).launch(
        grid=(logits.shape[0], 1, 1), block=(THREADS, 1, 1), stream=stream
    )


class ModelNew(nn.Module):
    compiled = {}

    def __init__(self, smoothing: float, penalty: float):
        super().__init__()
        self.smoothing, self.penalty = smoothing, penalty

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        logits, labels = logits.contiguous(), labels.contiguous()
        count, vocabulary = logits.shape
        width = 8 if vocabulary % 8 == 0 else 1
        out = torch.empty(count, device=logits.device, dtype=torch.float32)
        stream = driver.CUstream(torch.cuda.current_stream().cuda_stream)
        views = (logits.view(count, vocabulary // width, width), labels, out)
        tensors = [from_dlpack(view.detach(), assumed_align=16) for view in views]
        scalars = [cutlass.Float32(value) for value in (1 - self.smoothing, self.smoothing, self.penalty)]
        key = tuple(logits.shape)
        if key not in self.compiled:
            self.compiled[key] = cute.compile(smoothed_loss, *tensors, *scalars, stream)
        self.compiled[key](*tensors, *scalars, stream)
        return out
