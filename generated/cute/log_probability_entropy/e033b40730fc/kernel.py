import math

import cutlass
import cutlass.cute as cute
import torch
from cuda.bindings import driver
from cutlass.cute.runtime import from_dlpack
from torch import nn

THREADS = 256
WARPS = THREADS // 32
# Vectors that a thread reads at once.
FLIGHT = 4
LOG2E = math.log2(math.e)
# Stands for minus infinity, without its indefinite products.
LOWEST = -3.0e38


@cute.kernel
def entropy_of_row(logits: cute.Tensor, tokens: cute.Tensor, chosen: cute.Tensor, entropy: cute.Tensor):
    # Logits are [tokens, vectors, width]. A thread keeps the peak p of what it saw, the sum of exp(x - p), and the sum
    # of exp(x - p) (x - p).
    thread, _, _ = cute.arch.thread_idx()
    row, _, _ = cute.arch.block_idx()
    lane = cute.arch.lane_idx()
    warp = cute.arch.warp_idx()
    vectors, width = logits.shape[1], logits.shape[2]
    whole = vectors // (THREADS * FLIGHT) * (THREADS * FLIGHT)
    allocator = cutlass.utils.SmemAllocator()
    peaks = allocator.allocate_tensor(cutlass.Float32, cute.make_layout(WARPS))
    parts = allocator.allocate_tensor(cutlass.Float32, cute.make_layout((2, WARPS)))

    peak = cutlass.Float32(LOWEST)
    total = cutlass.Float32(0.0)
    moment = cutlass.Float32(0.0)
    for base in range(thread, whole, THREADS * FLIGHT):
        pieces = []
        for u in cutlass.range_constexpr(FLIGHT):
            pieces.append(logits[(row, base + u * THREADS, None)].load().to(cutlass.Float32))
        top = peak
        for u in cutlass.range_constexpr(FLIGHT):
            for e in cutlass.range_constexpr(width):
                top = cute.arch.fmax(top, pieces[u][e])
        shift = peak - top
        shrink = cute.math.exp2(shift * LOG2E, fastmath=True)
        moment = (moment + total * shift) * shrink
        total = total * shrink
        for u in cutlass.range_constexpr(FLIGHT):
            piece_total = cutlass.Float32(0.0)
            piece_moment = cutlass.Float32(0.0)
            for e in cutlass.range_constexpr(width):
                below = pieces[u][e] - top
                power = cute.math.exp2(below * LOG2E, fastmath=True)
                piece_total += power
                piece_moment += power * below
            total += piece_total
            moment += piece_moment
        peak = top
    for vector in range(whole + thread, vectors, THREADS):
        piece = logits[(row, vector, None)].load().to(cutlass.Float32)
        top = peak
        for e in cutlass.range_constexpr(width):
            top = cute.arch.fmax(top, piece[e])
        shift = peak - top
        shrink = cute.math.exp2(shift * LOG2E, fastmath=True)
        moment = (moment + total * shift) * shrink
        total = total * shrink
        for e in cutlass.range_constexpr(width):
            below = piece[e] - top
            power = cute.math.exp2(below * LOG2E, fastmath=True)
            total += power
            moment += power * below
        peak = top

    # The block's peak, to which each thread's sums are moved before they are added.
    warp_peak = cute.arch.warp_reduction_max(peak)
    if lane == 0:
        peaks[warp] = warp_peak
    cute.arch.sync_threads()
    top = peaks[0]
    for w in cutlass.range_constexpr(1, WARPS):
        top = cute.arch.fmax(top, peaks[w])
    shift = peak - top
    shrink = cute.math.exp2(shift * LOG2E, fastmath=True)
    warp_moment = cute.arch.warp_reduction_sum((moment + total * shift) * shrink)
    warp_total = cute.arch.warp_reduction_sum(total * shrink)
    if lane == 0:
        parts[0, warp] = warp_total
        parts[1, warp] = warp_moment
    cute.arch.sync_threads()
    if thread == 0:
        all_total = cutlass.Float32(0.0)
        all_moment = cutlass.Float32(0.0)
        for w in cutlass.range_constexpr(WARPS):
            all_total += parts[0, w]
            all_moment += parts[1, w]
        normalizer = cute.math.log(all_total)
        token = tokens[row].to(cutlass.Int32)
        own = logits[row, token // width, token % width].to(cutlass.Float32)
        chosen[row] = (own - top) - normalizer
        entropy[row] = normalizer - all_moment / all_total


@cute.jit
def policy_entropy(
    logits: cute.Tensor, tokens: cute.Tensor, chosen: cute.Tensor, entropy: cute.Tensor, stream: driver.CUstream
):
    entropy_of_row(logits, tokens, chosen, entropy).launch(
        grid=(logits.shape[0], 1, 1), block=(THREADS, 1, 1), stream=stream
    )


class ModelNew(nn.Module):
    compiled = {}

    def forward(self, logits: torch.Tensor, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits, tokens = logits.contiguous(), tokens.contiguous()
        count, vocabulary = logits.shape
        width = 8 if vocabulary % 8 == 0 else 1
        chosen = torch.empty(count, device=logits.device, dtype=torch.float32)
        entropy = torch.empty(count, device=logits.device, dtype=torch.float32)
        stream = driver.CUstream(torch.cuda.current_stream().cuda_stream)
        views = (logits.view(count, vocabulary // width, width), tokens, chosen, entropy)
        tensors = [from_dlpack(view.detach(), assumed_align=16) for view in views]
        key = tuple(logits.shape)
        if key not in self.compiled:
            self.compiled[key] = cute.compile(policy_entropy, *tensors, stream)
        self.compiled[key](*tensors, stream)
        return chosen, entropy
