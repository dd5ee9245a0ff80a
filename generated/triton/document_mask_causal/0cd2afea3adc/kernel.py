import math

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def packed_attention(query, key, value, document, out, L, scale,
                     D: tl.constexpr, BD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
                     SCAN: tl.constexpr, EVEN: tl.constexpr):
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

    q_doc = tl.load(document + tl.minimum(offs_m, L - 1))
    low = tl.min(q_doc, axis=0)
    high = tl.max(q_doc, axis=0)

    # The first earlier key that may match, and the last earlier key of another document.
    offs_s = tl.arange(0, SCAN)
    first_v = tl.zeros((SCAN,), dtype=tl.int32) + L
    last_v = tl.zeros((SCAN,), dtype=tl.int32) - 1
    for begin in range(0, q_start, SCAN):
        j = begin + offs_s
        ok = j < q_start
        d = tl.load(document + j, mask=ok, other=0)
        first_v = tl.minimum(first_v, tl.where(ok & (d >= low) & (d <= high), j, L))
        last_v = tl.maximum(last_v, tl.where(ok & (d != low), j, -1))
    first = tl.min(first_v, axis=0)
    last = tl.max(last_v, axis=0)

    lo = (tl.minimum(first, q_start) // BN) * BN
    uniform = tl.where(low == high, last + 1, q_start)
    mid = ((uniform + BN - 1) // BN) * BN
    mid = tl.maximum(tl.minimum(mid, q_start), lo)
    n_before = (mid - lo) // BN
    n_diagonal = (tl.minimum(q_start + BM, L) - q_start + BN - 1) // BN

    m = tl.full((BM,), -float("inf"), dtype=tl.float32)
    l = tl.zeros((BM,), dtype=tl.float32)
    acc = tl.zeros((BM, BD), dtype=tl.float32)

    # Tiles that need a mask.
    for i in range(0, n_before + n_diagonal):
        start = tl.where(i < n_before, lo + i * BN, q_start + (i - n_before) * BN)
        cols = start + offs_n
        k_ptrs = key + base + cols[None, :] * D + offs_d[:, None]
        v_ptrs = value + base + cols[:, None] * D + offs_d[None, :]
        if EVEN:
            k = tl.load(k_ptrs)
            v = tl.load(v_ptrs)
        else:
            k = tl.load(k_ptrs, mask=(cols[None, :] < L) & (offs_d[:, None] < D), other=0.0)
            v = tl.load(v_ptrs, mask=(cols[:, None] < L) & (offs_d[None, :] < D), other=0.0)
        k_doc = tl.load(document + tl.minimum(cols, L - 1))
        s = tl.dot(q, k) * scale
        keep = (cols[None, :] <= offs_m[:, None]) & (k_doc[None, :] == q_doc[:, None])
        s = tl.where(keep, s, -float("inf"))
        m_new = tl.maximum(m, tl.max(s, axis=1))
        m_use = tl.where(m_new == -float("inf"), 0.0, m_new)
        p = tl.exp2(s - m_use[:, None])
        alpha = tl.exp2(m - m_use)
        l = l * alpha + tl.sum(p, axis=1)
        acc = acc * alpha[:, None]
        acc = tl.dot(p.to(v.dtype), v, acc)
        m = m_new

    # Tiles wholly inside the one document of this query tile.
    for start in range(mid, q_start, BN):
        cols = start + offs_n
        k_ptrs = key + base + cols[None, :] * D + offs_d[:, None]
        v_ptrs = value + base + cols[:, None] * D + offs_d[None, :]
        if EVEN:
            k = tl.load(k_ptrs)
            v = tl.load(v_ptrs)
        else:
            k = tl.load(k_ptrs, mask=(cols[None, :] < L) & (offs_d[:, None] < D), other=0.0)
            v = tl.load(v_ptrs, mask=(cols[:, None] < L) & (offs_d[None, :] < D), other=0.0)
        s = tl.dot(q, k) * scale
        m_new = tl.maximum(m, tl.max(s, axis=1))
        p = tl.exp2(s - m_new[:, None])
        alpha = tl.exp2(m - m_new)
        l = l * alpha + tl.sum(p, axis=1)
        acc = acc * alpha[:, None]
        acc = tl.dot(p.to(v.dtype), v, acc)
        m = m_new

    acc = acc / l[:, None]
    o_ptrs = out + base + offs_m[:, None] * D + offs_d[None, :]
    if EVEN:
        tl.store(o_ptrs, acc.to(out.dtype.element_ty))
    else:
        tl.store(o_ptrs, acc.to(out.dtype.element_ty), mask=(offs_m[:, None] < L) & (offs_d[None, :] < D))


class ModelNew(nn.Module):
    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, document: torch.Tensor
    ) -> torch.Tensor:
        query, key, value = query.contiguous(), key.contiguous(), value.contiguous()
        document = document.contiguous()
        length, features = query.shape[-2], query.shape[-1]
        out = torch.empty_like(query)
        if out.numel() == 0:
            return out
        heads = query.numel() // (length * features)
        block_d = max(16, triton.next_power_of_2(features))
        block_m, block_n = 128, 64
        even = length % block_m == 0 and features == block_d
        scale = 1.4426950408889634 / math.sqrt(features)
        packed_attention[(heads, triton.cdiv(length, block_m))](
            query, key, value, document, out, length, scale,
            D=features, BD=block_d, BM=block_m, BN=block_n, SCAN=1024, EVEN=even,
            num_warps=8, num_stages=3,
        )
        return out
