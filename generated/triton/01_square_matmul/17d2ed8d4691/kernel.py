import torch
import triton
import triton.language as tl
from torch import nn


def _prune(configs, named_args, **kwargs):
    # Small problems: one configuration is enough.
    if kwargs["M"] * kwargs["N"] * kwargs["K"] < 2**30:
        return [configs[0]]
    return configs


@triton.autotune(
    configs=[
        triton.Config({"BM": 128, "BN": 128, "BK": 32, "GROUP": 8}, num_warps=8, num_stages=3),
        triton.Config({"BM": 128, "BN": 128, "BK": 32, "GROUP": 8}, num_warps=4, num_stages=3),
        triton.Config({"BM": 128, "BN": 256, "BK": 32, "GROUP": 8}, num_warps=8, num_stages=3),
        triton.Config({"BM": 64, "BN": 128, "BK": 32, "GROUP": 8}, num_warps=4, num_stages=4),
        triton.Config({"BM": 128, "BN": 64, "BK": 32, "GROUP": 8}, num_warps=4, num_stages=4),
    ],
    key=["M", "N", "K"],
    prune_configs_by={"early_config_prune": _prune},
)
@triton.jit
def matmul_kernel(
    a,
    b,
    c,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
):
    pid = tl.program_id(0)
    tiles_m = (M + BM - 1) // BM
    tiles_n = (N + BN - 1) // BN
    per_group = GROUP * tiles_n
    group = pid // per_group
    first = group * GROUP
    size = tl.minimum(tiles_m - first, GROUP)
    local = pid - group * per_group
    pid_m = first + local % size
    pid_n = local // size
    row0 = pid_m * BM
    col0 = pid_n * BN

    rows = tl.arange(0, BM)
    cols = tl.arange(0, BN)
    ks = tl.arange(0, BK)
    # Ragged edges read the last valid row or column again; the store is masked.
    if M % BM == 0:
        a_rows = rows
    else:
        a_rows = tl.minimum(rows, M - 1 - row0)
    if N % BN == 0:
        b_cols = cols
    else:
        b_cols = tl.minimum(cols, N - 1 - col0)
    a_offs = a_rows[:, None] * K + ks[None, :]
    b_offs = ks[:, None] * N + b_cols[None, :]
    a_base = a + row0.to(tl.int64) * K
    b_base = b + col0

    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        if K % BK == 0:
            x = tl.load(a_base + a_offs)
            y = tl.load(b_base + b_offs)
        else:
            inside = ks < K - k
            x = tl.load(a_base + a_offs, mask=inside[None, :], other=0.0)
            y = tl.load(b_base + b_offs, mask=inside[:, None], other=0.0)
        acc = tl.dot(x, y, acc, input_precision="tf32x3")
        a_base += BK
        b_base += BK * N

    c_base = c + row0.to(tl.int64) * N + col0
    c_offs = rows[:, None] * N + cols[None, :]
    if M % BM == 0 and N % BN == 0:
        tl.store(c_base + c_offs, acc)
    else:
        valid = (rows < M - row0)[:, None] & (cols < N - col0)[None, :]
        tl.store(c_base + c_offs, acc, mask=valid)


class ModelNew(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a, b = a.contiguous(), b.contiguous()
        m, k = a.shape
        n = b.shape[1]
        c = torch.empty((m, n), device=a.device, dtype=a.dtype)
        if c.numel():

            def grid(meta):
                return (triton.cdiv(m, meta["BM"]) * triton.cdiv(n, meta["BN"]),)

            matmul_kernel[grid](a, b, c, M=m, N=n, K=k)
        return c
