import cutlass
import cutlass.cute as cute
import torch
from cuda.bindings import driver
from cutlass.cute.runtime import from_dlpack
from torch import nn

WARPS = 4  # of a block: a row each
GROUP = 4  # pieces of 128 elements that a warp fetches ahead


@cute.jit
def fetch(
    x: cute.Tensor,
    flags: cute.Tensor,
    row,
    piece,
    slot: cutlass.Constexpr,
    length: cutlass.Constexpr,
    values: cute.Tensor,
    marks: cute.Tensor,
):
    """Loads four elements of a lane; four flags are one word, or elements of their own where a row is no multiple."""
    start = (piece * 32 + cute.arch.lane_idx()) * 4
    if cutlass.const_expr(length % 4 == 0):
        if start < length:
            values[None, slot].store(x[row, start // 4, None].load())
            marks[0, slot] = flags[row, start // 4]
    else:
        for j in cutlass.range_constexpr(4):
            if start + j < length:
                values[j, slot] = x[row, start + j]
                marks[j, slot] = cutlass.Int32(flags[row, start + j])


@cute.kernel
def decay_rows(
    x: cute.Tensor, flags: cute.Tensor, decay: cute.Tensor, out: cute.Tensor, length: cutlass.Constexpr
):
    # One warp a row, 128 elements at a time: a lane scans four, shuffles join the lanes, and the sum is carried on.
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    rows = x.shape[0]
    lane = cute.arch.lane_idx()
    wanted = block * WARPS + thread // 32
    row = cutlass.min(wanted, rows - 1)  # a warp too many goes along and writes nothing
    factor = decay[row]
    per_word = cutlass.const_expr(length % 4 == 0)

    values = cute.make_rmem_tensor((4, GROUP), cutlass.Float32)
    next_values = cute.make_rmem_tensor((4, GROUP), cutlass.Float32)
    marks = cute.make_rmem_tensor((4, GROUP), cutlass.Int32)
    next_marks = cute.make_rmem_tensor((4, GROUP), cutlass.Int32)
    packed = cute.make_rmem_tensor(4, cutlass.Float32)
    next_values.fill(0.0)
    next_marks.fill(0)
    pieces = (length + 127) // 128
    groups = (pieces + GROUP - 1) // GROUP
    for slot in cutlass.range_constexpr(GROUP):
        fetch(x, flags, row, slot, slot, length, next_values, next_marks)
    carried = cutlass.Float32(0.0)

    for group in range(groups):
        for slot in cutlass.range_constexpr(GROUP):
            for j in cutlass.range_constexpr(4):
                values[j, slot] = next_values[j, slot]
                marks[j, slot] = next_marks[j, slot]
        if group + 1 < groups:
            for slot in cutlass.range_constexpr(GROUP):
                fetch(x, flags, row, (group + 1) * GROUP + slot, slot, length, next_values, next_marks)
        for slot in cutlass.range_constexpr(GROUP):
            sums = []
            kept = []
            b = cutlass.Float32(0.0)
            a = cutlass.Float32(1.0)
            for j in cutlass.range_constexpr(4):
                if cutlass.const_expr(per_word):
                    mark = marks[0, slot] & (255 << (8 * j) if j < 3 else -(1 << 24))
                else:
                    mark = marks[j, slot]
                step = factor if mark == 0 else cutlass.Float32(0.0)
                b = values[j, slot] + step * b
                a = step * a
                sums.append(b)
                kept.append(a)
            for k in cutlass.range_constexpr(5):
                before_a = cute.arch.shuffle_sync_up(a, 1 << k)
                before_b = cute.arch.shuffle_sync_up(b, 1 << k)
                if lane >= 1 << k:
                    b = b + a * before_b
                    a = a * before_a
            after = b + a * carried  # the sum behind this lane
            before = cute.arch.shuffle_sync_up(after, 1)
            if lane == 0:
                before = carried
            carried = cute.arch.shuffle_sync(after, 31)
            start = ((group * GROUP + slot) * 32 + lane) * 4
            for j in cutlass.range_constexpr(4):
                packed[j] = sums[j] + kept[j] * before
            if cutlass.const_expr(per_word):
                if start < length and wanted < rows:
                    out[row, start // 4, None].store(packed.load())
            else:
                for j in cutlass.range_constexpr(4):
                    if start + j < length and wanted < rows:
                        out[row, start + j] = packed[j]


@cute.jit
def decay_all(
    x: cute.Tensor,
    flags: cute.Tensor,
    decay: cute.Tensor,
    out: cute.Tensor,
    length: cutlass.Constexpr,
    stream: driver.CUstream,
):
    blocks = (x.shape[0] + WARPS - 1) // WARPS
    decay_rows(x, flags, decay, out, length).launch(
        grid=(blocks, 1, 1), block=(32 * WARPS, 1, 1), stream=stream
    )


class ModelNew(nn.Module):
    def __init__(self, rows: int):
        super().__init__()
        self.decay = nn.Parameter(0.5 + 0.45 * torch.rand(rows))
        self.compiled = {}

    def forward(self, x: torch.Tensor, flags: torch.Tensor) -> torch.Tensor:
        rows, length = x.shape
        x, flags = x.contiguous(), flags.contiguous()
        out = torch.empty_like(x)
        stream = driver.CUstream(torch.cuda.current_stream().cuda_stream)
        wide = length % 4 == 0
        shape = (rows, length // 4, 4) if wide else (rows, length)
        align = 16 if wide else 4
        tensors = (
            from_dlpack(x.view(shape).detach(), assumed_align=align),
            from_dlpack(flags.view(torch.int32 if wide else torch.uint8)),
            from_dlpack(self.decay.detach()),
            from_dlpack(out.view(shape), assumed_align=align),
        )
        key = (rows, length)
        if key not in self.compiled:
            self.compiled[key] = cute.compile(decay_all, *tensors, length, stream)
        self.compiled[key](*tensors, stream)
        return out
