import cutlass
import cutlass.cute as cute
import torch
from cuda.bindings import driver
from cutlass.cute.runtime import from_dlpack
from torch import nn

THREADS = 256
WARPS = THREADS // 32


@cute.kernel
def rms_norm_row(x: cute.Tensor, weight: cute.Tensor, out: cute.Tensor, epsilon: cutlass.Float32):
    thread, _, _ = cute.arch.thread_idx()
    row, _, _ = cute.arch.block_idx()
    features = x.shape[1]
    squares = cutlass.Float32(0.0)
    for column in range(thread, features, THREADS):
        squares += x[row, column] * x[row, column]
    squares = cute.arch.warp_reduction_sum(squares)
    shared = cutlass.utils.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(WARPS))
    own_warp = cute.arch.warp_idx()
    if cute.arch.lane_idx() == 0:
        shared[own_warp] = squares
    cute.arch.sync_threads()
    total = cutlass.Float32(0.0)
    for warp in cutlass.range_constexpr(WARPS):
        total += shared[warp]
    scale = cute.math.rsqrt(total / features + epsilon)
    for column in range(thread, features, THREADS):
        out[row, column] = x[row, column] * scale * weight[column]


@cute.jit
def rms_norm(
    x: cute.Tensor, weight: cute.Tensor, out: cute.Tensor, epsilon: cutlass.Float32, stream: driver.CUstream
):
    rms_norm_row(x, weight, out, epsilon).launch(
        grid=(x.shape[0], 1, 1), block=(THREADS, 1, 1), stream=stream
    )


class ModelNew(nn.Module):
    compiled = {}

    def __init__(self, features: int, epsilon: float):
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(1.0 + 0.3 * torch.randn(features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(-1, x.shape[-1]).contiguous()
        out = torch.empty_like(rows)
        stream = driver.CUstream(torch.cuda.current_stream().cuda_stream)
        tensors = [from_dlpack(tensor.detach()) for tensor in (rows, self.weight, out)]
        key = tuple(rows.shape)
        if key not in self.compiled:
            self.compiled[key] = cute.compile(rms_norm, *tensors, cutlass.Float32(self.epsilon), stream)
        self.compiled[key](*tensors, cutlass.Float32(self.epsilon), stream)
        return out.view(x.shape)
