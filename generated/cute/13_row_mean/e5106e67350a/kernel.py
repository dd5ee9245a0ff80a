import cutlass
import cutlass.cute as cute
import torch
from cuda.bindings import driver
from cutlass.cute.runtime import from_dlpack
from torch import nn

THREADS = 512
WARPS = THREADS // 32


@cute.kernel
def mean_of_row(x: cute.Tensor, out: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    row, _, _ = cute.arch.block_idx()
    columns = x.shape[1]
    first, second = cutlass.Float32(0.0), cutlass.Float32(0.0)
    third, fourth = cutlass.Float32(0.0), cutlass.Float32(0.0)
    whole = columns // (4 * THREADS) * (4 * THREADS)
    for column in range(thread, whole, 4 * THREADS):
        first += x[row, column]
        second += x[row, column + THREADS]
        third += x[row, column + 2 * THREADS]
        fourth += x[row, column + 3 * THREADS]
    for column in range(whole + thread, columns, THREADS):
        first += x[row, column]
    total = cute.arch.warp_reduction_sum((first + second) + (third + fourth))
    shared = cutlass.utils.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(WARPS))
    own_warp = cute.arch.warp_idx()
    if cute.arch.lane_idx() == 0:
        shared[own_warp] = total
    cute.arch.sync_threads()
    if thread == 0:
        everything = cutlass.Float32(0.0)
        for warp in cutlass.range_constexpr(WARPS):
            everything += shared[warp]
        out[row] = everything / columns


@cute.jit
def row_mean(x: cute.Tensor, out: cute.Tensor, stream: driver.CUstream):
    mean_of_row(x, out).launch(grid=(x.shape[0], 1, 1), block=(THREADS, 1, 1), stream=stream)


class ModelNew(nn.Module):
    compiled = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(-1, x.shape[-1]).contiguous()
        out = torch.empty(rows.shape[0], device=x.device, dtype=x.dtype)
        stream = driver.CUstream(torch.cuda.current_stream().cuda_stream)
        tensors = [from_dlpack(tensor.detach()) for tensor in (rows, out)]
        key = tuple(rows.shape)
        if key not in self.compiled:
            self.compiled[key] = cute.compile(row_mean, *tensors, stream)
        self.compiled[key](*tensors, stream)
        return out.view(x.shape[:-1])
