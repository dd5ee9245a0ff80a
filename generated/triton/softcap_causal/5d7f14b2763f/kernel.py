import math

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def reciprocal(x):
    return tl.inline_asm_elementwise(
        "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
    )


@triton.jit
def capped_attention(query, key, value, out, L, c1, c2,
                     D: tl.constexpr, BD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
                     EVEN: tl.constexpr, ONLINE: tl.constexpr):
    head = tl.program_id(0).to(tl.int64)
    block = tl.num_programs(1) - 1 - tl.program_id(1)
    q_start = block * BM
    base = head * L * D
    offs_m = q_start + tl.arange(0, BM)
    offs_n = tl.arange(0, BN)
    offs_d = tl.arange(0, BD)

    q_ptrs = query + base + offs_m[:, None] * D + offs_d[None, :]
    if EVEN:
        q = tl.load(q_ptrs)
    else:
        q = tl.load(q_ptrs, mask=(offs_m[:, None] < L) & (offs_d[None, :] < D), other=0.0)

    m = tl.full((BM,), -1.0e30, dtype=tl.float32)
    l = tl.zeros((BM,), dtype=tl.float32)
    acc = tl.zeros((BM, BD), dtype=tl.float32)

    # Below the diagonal: no mask.
    for start in range(0, q_start, BN):
        cols = start + offs_n
        k_ptrs = key + base + cols[None, :] * D + offs_d[:, None]
        v_ptrs = value + base + cols[:, None] * D + offs_d[None, :]
        if EVEN:
            k = tl.load(k_ptrs)
            v = tl.load(v_ptrs)
        else:
            k = tl.load(k_ptrs, mask=(cols[None, :] < L) & (offs_d[:, None] < D), other=0.0)
            v = tl.load(v_ptrs, mask=(cols[:, None] < L) & (offs_d[None, :] < D), other=0.0)
        s = tl.dot(q, k)
        s = reciprocal(tl.exp2(s * c1) + 1.0) * c2
        if ONLINE:
            m_new = tl.maximum(m, tl.max(s, axis=1))
            alpha = tl.exp2(m - m_new)
            p = tl.exp2(s - m_new[:, None])
            l = l * alpha
            acc = acc * alpha[:, None]
            m = m_new
        else:
            p = tl.exp2(s)
        l += tl.sum(p, axis=1)
        acc = tl.dot(p.to(v.dtype), v, acc)

    # The diagonal.
    end = tl.minimum(q_start + BM, L)
    for start in range(q_start, end, BN):
        cols = start + offs_n
        k_ptrs = key + base + cols[None, :] * D + offs_d[:, None]
        v_ptrs = value + base + cols[:, None] * D + offs_d[None, :]
        if EVEN:
            k = tl.load(k_ptrs)
            v = tl.load(v_ptrs)
        else:
            k = tl.load(k_ptrs, mask=(cols[None, :] < L) & (offs_d[:, None] < D), other=0.0)
            v = tl.load(v_ptrs, mask=(cols[:, None] < L) & (offs_d[None, :] < D), other=0.0)
        s = tl.dot(q, k)
        s = reciprocal(tl.exp2(s * c1) + 1.0) * c2
        keep = cols[None, :] <= offs_m[:, None]
        if ONLINE:
            m_new = tl.maximum(m, tl.max(tl.where(keep, s, -1.0e30), axis=1))
            alpha = tl.exp2(m - m_new)
            p = tl.where(keep, tl.exp2(tl.minimum(s - m_new[:, None], 0.0)), 0.0)
            l = l * alpha
            acc = acc * alpha[:, None]
            m = m_new
        else:
            p = tl.where(keep, tl.exp2(s), 0.0)
        l += tl.sum(p, axis=1)
        acc = tl.dot(p.to(v.dtype), v, acc)

    acc = acc / l[:, None]
    o_ptrs = out + base + offs_m[:, None] * D + offs_d[None, :]
    if EVEN:
        tl.store(o_ptrs, acc.to(out.dtype.element_ty))
    else:
        tl.store(o_ptrs, acc.to(out.dtype.element_ty), mask=(offs_m[:, None] < L) & (offs_d[None, :] < D))


class ModelNew(nn.Module):
    def __init__(self, cap: float):
        super().__init__()
        self.cap = cap

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        query, key, value = query.contiguous(), key.contiguous(), value.contiguous()
        length, features = query.shape[-2], query.shape[-1]
        out = torch.empty_like(query)
        if out.numel() == 0:
            return out
        heads = query.numel() // (length * features)
        block_d = max(16, triton.next_power_of_2(features))
        block_m, block_n = 128, 64
        even = length % block_m == 0 and features == block_d
        log2e = 1.4426950408889634
        cap = abs(float(self.cap))
        c1 = 2.0 * log2e / (cap * math.sqrt(features))
        c2 = -2.0 * cap * log2e
        capped_attention[(heads, triton.cdiv(length, block_m))](
            query, key, value, out, length, c1, c2,
            D=features, BD=block_d, BM=block_m, BN=block_n, EVEN=even, ONLINE=cap > 40.0,
            num_warps=8, num_stages=3,
        )
        return out
