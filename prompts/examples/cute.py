import cutlass
import cutlass.cute as cute
import torch
from cuda.bindings import driver
from cutlass.cute.runtime import from_dlpack
from torch import nn

THREADS = 256


@cute.kernel
def distance_of_rows(x: cute.Tensor, y: cute.Tensor, weight: cute.Tensor, out: cute.Tensor, clip: cutlass.Float32):
    # One block a row; neighbouring threads read neighbouring elements.
    thread, _, _ = cute.arch.thread_idx()
    row, _, _ = cute.arch.block_idx()
    features = x.shape[1]
    total = cutlass.Float32(0.0)
    for column in range(thread, features, THREADS):
        d = cutlass.min(cutlass.max(x[row, column] - y[row, column], -clip), clip)
        total += d * d * weight[column]
    total = cute.arch.warp_reduction_sum(total)
    shared = cutlass.utils.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(THREADS // 32))
    own_warp = cute.arch.warp_idx()
    if cute.arch.lane_idx() == 0:
        shared[own_warp] = total
    cute.arch.sync_threads()
    if thread == 0:
        whole = cutlass.Float32(0.0)
        for warp in cutlass.range_constexpr(THREADS // 32):
            whole += shared[warp]
        out[row] = whole


@cute.jit
def clipped_distance(
    x: cute.Tensor,
    y: cute.Tensor,
    weight: cute.Tensor,
    out: cute.Tensor,
    clip: cutlass.Float32,
    stream: driver.CUstream,
):
    distance_of_rows(x, y, weight, out, clip).launch(
        grid=(x.shape[0], 1, 1), block=(THREADS, 1, 1), stream=stream
    )


class ModelNew(nn.Module):
    def __init__(self, features: int, clip: float):
        super().__init__()
        self.clip = clip
        self.weight = nn.Parameter(torch.rand(features) + 0.5)
        self.compiled = {}

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        features = x.shape[-1]
        x2, y2 = x.reshape(-1, features).contiguous(), y.reshape(-1, features).contiguous()
        out = torch.empty(x2.shape[0], device=x.device, dtype=x.dtype)
        stream = driver.CUstream(torch.cuda.current_stream().cuda_stream)
        tensors = [from_dlpack(tensor.detach()) for tensor in (x2, y2, self.weight, out)]
        # Compiling takes seconds: once a shape, at its first call.
        key = tuple(x2.shape)
        if key not in self.compiled:
            self.compiled[key] = cute.compile(clipped_distance, *tensors, cutlass.Float32(self.clip), stream)
        self.compiled[key](*tensors, cutlass.Float32(self.clip), stream)
        return out.view(x.shape[:-1])
