import cutlass
import cutlass.cute as cute
import torch
from cuda.bindings import driver
from cutlass.cute.runtime import from_dlpack
from torch import nn

THREADS = 256
VECTORS = 4  # vectors of four a thread
LOG2E = 1.4426950408889634


def silu(y):
    return y * cute.arch.rcp_approx(cute.math.exp2(y * (-LOG2E), fastmath=True) + 1.0)


@cute.kernel
def conv_wide(x: cute.Tensor, weight: cute.Tensor, bias: cute.Tensor, out: cute.Tensor):
    # x, out: [rows, vectors, 4]; at most five taps, so one vector before is enough.
    thread, _, _ = cute.arch.thread_idx()
    row, part, _ = cute.arch.block_idx()
    vectors = x.shape[1]
    taps = weight.shape[1]
    features = weight.shape[0]
    channel = row % features
    start = part * (THREADS * VECTORS) + thread
    last = cutlass.Int32(vectors - 1)
    now = cute.make_rmem_tensor((4, VECTORS), cutlass.Float32)
    before = cute.make_rmem_tensor((4, VECTORS), cutlass.Float32)
    for u in cutlass.range_constexpr(VECTORS):
        safe = cutlass.min(start + u * THREADS, last)
        now[None, u].store(x[row, safe, None].load())
    for u in cutlass.range_constexpr(VECTORS):
        safe_before = cutlass.max(cutlass.min(start + u * THREADS, last) - 1, cutlass.Int32(0))
        before[None, u].store(x[row, safe_before, None].load())
    w = [weight[channel, k] for k in range(taps)]
    offset = bias[channel]
    if start == 0:
        for n in cutlass.range_constexpr(4):
            before[n, 0] = cutlass.Float32(0.0)
    result = cute.make_rmem_tensor(4, cutlass.Float32)
    for u in cutlass.range_constexpr(VECTORS):
        values = [before[i, u] for i in range(4)] + [now[i, u] for i in range(4)]
        for t in cutlass.range_constexpr(4):
            total = offset
            for k in cutlass.range_constexpr(taps):
                total = cute.math.fma(w[k], values[4 + t - (taps - 1) + k], total)
            result[t] = silu(total)
        index = start + u * THREADS
        if index < vectors:
            out[row, index, None].store(result.load())


@cute.kernel
def conv_any(x: cute.Tensor, weight: cute.Tensor, bias: cute.Tensor, out: cute.Tensor):
    # x, out: [rows, length]; one element a thread.
    thread, _, _ = cute.arch.thread_idx()
    row, part, _ = cute.arch.block_idx()
    length = x.shape[1]
    taps = weight.shape[1]
    features = weight.shape[0]
    channel = row % features
    place = part * THREADS + thread
    total = bias[channel]
    for k in cutlass.range_constexpr(taps):
        source = place - (taps - 1) + k
        safe = cutlass.min(cutlass.max(source, cutlass.Int32(0)), cutlass.Int32(length - 1))
        value = x[row, safe]
        chosen = value if source >= 0 else cutlass.Float32(0.0)
        total = cute.math.fma(weight[channel, k], chosen, total)
    if place < length:
        out[row, place] = silu(total)


@cute.jit
def run_wide(x: cute.Tensor, weight: cute.Tensor, bias: cute.Tensor, out: cute.Tensor, stream: driver.CUstream):
    per_block = THREADS * VECTORS
    conv_wide(x, weight, bias, out).launch(
        grid=(x.shape[0], (x.shape[1] + per_block - 1) // per_block, 1), block=(THREADS, 1, 1), stream=stream
    )


@cute.jit
def run_any(x: cute.Tensor, weight: cute.Tensor, bias: cute.Tensor, out: cute.Tensor, stream: driver.CUstream):
    conv_any(x, weight, bias, out).launch(
        grid=(x.shape[0], (x.shape[1] + THREADS - 1) // THREADS, 1), block=(THREADS, 1, 1), stream=stream
    )


class ModelNew(nn.Module):
    def __init__(self, features: int, taps: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features, 1, taps) / 2.0)
        self.bias = nn.Parameter(torch.randn(features) / 2.0)
        self.compiled = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, features, length = x.shape
        taps = self.weight.shape[-1]
        source = x.detach().contiguous()
        out = torch.empty((batch, features, length), device=x.device, dtype=x.dtype)
        wide = length % 4 == 0 and taps <= 5
        shape = (batch * features, length // 4, 4) if wide else (batch * features, length)
        weight = self.weight.detach().reshape(features, taps).contiguous()
        bias = self.bias.detach()
        tensors = [
            from_dlpack(source.view(shape), assumed_align=16),
            from_dlpack(weight),
            from_dlpack(bias),
            from_dlpack(out.view(shape), assumed_align=16),
        ]
        stream = driver.CUstream(torch.cuda.current_stream().cuda_stream)
        key = (batch, features, length, taps)
        if key not in self.compiled:
            self.compiled[key] = cute.compile(run_wide if wide else run_any, *tensors, stream)
        self.compiled[key](*tensors, stream)
        return out
