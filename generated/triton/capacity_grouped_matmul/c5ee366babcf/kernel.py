import torch
import triton
import triton.language as tl
from torch import nn


@triton.autotune(
    configs=[
        triton.Config({"BM": 128, "BN": 256, "BK": 64}, num_warps=8, num_stages=4),
        triton.Config({"BM": 128, "BN": 128, "BK": 64}, num_warps=8, num_stages=3),
        triton.Config({"BM": 128, "BN": 128, "BK": 64}, num_warps=4, num_stages=3),
        triton.Config({"BM": 64, "BN": 256, "BK": 64}, num_warps=4, num_stages=4),
        triton.Config({"BM": 64, "BN": 128, "BK": 64}, num_warps=4, num_stages=4),
    ],
    key=["capacity", "features", "outputs"],
)
@triton.jit
def filled_matmul(x, weight, counts, out, capacity, features, outputs,
                  EVEN_K: tl.constexpr, EVEN_N: tl.constexpr,
                  BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row_tiles = tl.cdiv(capacity, BM)
    column_tiles = tl.cdiv(outputs, BN)
    pid = tl.program_id(0)
    tile_m = pid % row_tiles
    rest = pid // row_tiles
    tile_n = rest % column_tiles
    expert = (rest // column_tiles).to(tl.int64)
    count = tl.minimum(tl.load(counts + expert), capacity).to(tl.int32)
    first = tile_m * BM
    rows = first + tl.arange(0, BM)
    columns = tile_n * BN + tl.arange(0, BN)
    out_ptr = out + expert * capacity * outputs + rows[:, None] * outputs + columns[None, :]
    inside = (rows < capacity)[:, None] & (columns < outputs)[None, :]
    if first >= count:
        tl.store(out_ptr, tl.zeros((BM, BN), dtype=out.dtype.element_ty), mask=inside)
    else:
        k = tl.arange(0, BK)
        source = tl.minimum(rows, count - 1)
        x_ptr = x + expert * capacity * features + source[:, None] * features + k[None, :]
        w_ptr = weight + expert * features * outputs + k[:, None] * outputs + columns[None, :]
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for start in range(0, features, BK):
            if EVEN_K:
                a = tl.load(x_ptr)
                if EVEN_N:
                    b = tl.load(w_ptr)
                else:
                    b = tl.load(w_ptr, mask=(columns < outputs)[None, :], other=0.0)
            else:
                k_inside = start + k < features
                a = tl.load(x_ptr, mask=k_inside[None, :], other=0.0)
                b = tl.load(w_ptr, mask=k_inside[:, None] & (columns < outputs)[None, :], other=0.0)
            acc = tl.dot(a, b, acc)
            x_ptr += BK
            w_ptr += BK * outputs
        acc = tl.where((rows < count)[:, None], acc, 0.0)
        tl.store(out_ptr, acc.to(out.dtype.element_ty), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, experts: int, features: int, outputs: int):
        super().__init__()
        weight = torch.randn(experts, features, outputs) / features**0.5
        self.weight = nn.Parameter(weight.bfloat16())

    def forward(self, x: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        x, counts, weight = x.contiguous(), counts.contiguous(), self.weight.contiguous()
        experts, capacity, features = x.shape
        outputs = weight.shape[-1]
        out = torch.empty((experts, capacity, outputs), device=x.device, dtype=x.dtype)
        if out.numel() == 0:
            return out
        filled_matmul[lambda meta: (experts * triton.cdiv(capacity, meta["BM"]) * triton.cdiv(outputs, meta["BN"]),)](
            x, weight, counts, out, capacity, features, outputs,
            EVEN_K=features % 64 == 0, EVEN_N=outputs % 256 == 0)
        return out
