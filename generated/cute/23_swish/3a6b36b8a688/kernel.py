import cutlass
import cutlass.cute as cute
import torch
from cuda.bindings import driver
from cutlass.cute.runtime import from_dlpack
from torch import nn

THREADS = 256
STRIP = 32


@cute.kernel
def swish_strip(x: cute.Tensor, beta: cute.Tensor, out: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, strip, _ = cute.arch.block_idx()
    rows, features = x.shape[0], x.shape[1]
    column = block * THREADS + thread
    if column < features:
        slope = beta[column]
        for row in range(strip * STRIP, cutlass.min(strip * STRIP + STRIP, rows)):
            value = x[row, column]
            out[row, column] = value / (1.0 + cute.math.exp(-slope * value))


@cute.jit
def swish(x: cute.Tensor, beta: cute.Tensor, out: cute.Tensor, stream: driver.CUstream):
    grid = (cute.ceil_div(x.shape[1], THREADS), cute.ceil_div(x.shape[0], STRIP), 1)
    swish_strip(x, beta, out).launch(grid=grid, block=(THREADS, 1, 1), stream=stream)


class ModelNew(nn.Module):
    compiled = {}

    def __init__(self, features: int):
        super().__init__()
        self.beta = nn.Parameter(1.0 + 0.5 * torch.randn(features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(-1, x.shape[-1]).contiguous()
        out = torch.empty_like(rows)
        stream = driver.CUstream(torch.cuda.current_stream().cuda_stream)
        tensors = [from_dlpack(tensor.detach()) for tensor in (rows, self.beta, out)]
        key = tuple(rows.shape)
        if key not in self.compiled:
            self.compiled[key] = cute.compile(swish, *tensors, stream)
        self.compiled[key](*tensors, stream)
        return out.view(x.shape)
