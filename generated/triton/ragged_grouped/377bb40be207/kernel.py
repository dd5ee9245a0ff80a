import math

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def decode_chunk(
    query, keys, values, lengths, partial, stats,
    pairs, groups, shared, length, splits, scale,
    D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_N: tl.constexpr, CHUNK: tl.constexpr,
):
    pid = tl.program_id(0)
    pair = pid % pairs
    split = pid // pairs
    valid = tl.minimum(tl.load(lengths + pair // groups), length).to(tl.int32)
    lo = split * CHUNK
    if lo < valid:
        hi = tl.minimum(lo + CHUNK, valid)
        r = tl.arange(0, BLOCK_R)
        d = tl.arange(0, BLOCK_D)
        lanes = tl.arange(0, BLOCK_N)
        wide = pair.to(tl.int64)
        q_mask = (r < shared)[:, None] & (d < D)[None, :]
        q = tl.load(query + wide * shared * D + r[:, None] * D + d[None, :], mask=q_mask, other=0.0)
        kbase = keys + wide * length * D
        vbase = values + wide * length * D
        m = tl.full((BLOCK_R,), float("-inf"), dtype=tl.float32)
        l = tl.zeros((BLOCK_R,), dtype=tl.float32)
        acc = tl.zeros((BLOCK_R, BLOCK_D), dtype=tl.float32)
        for start in range(lo, hi, BLOCK_N):
            n = start + lanes
            n_in = n < hi
            if BLOCK_D == D:
                mask = n_in[:, None]
            else:
                mask = n_in[:, None] & (d[None, :] < D)
            offset = n[:, None] * D + d[None, :]
            k = tl.load(kbase + offset, mask=mask, other=0.0)
            v = tl.load(vbase + offset, mask=mask, other=0.0)
            s = tl.dot(q, tl.trans(k)) * scale
            s = tl.where(n_in[None, :], s, float("-inf"))
            m_new = tl.maximum(m, tl.max(s, 1))
            alpha = tl.exp2(m - m_new)
            p = tl.exp2(s - m_new[:, None])
            l = l * alpha + tl.sum(p, 1)
            acc = acc * alpha[:, None]
            acc = tl.dot(p.to(v.dtype), v, acc)
            m = m_new
        slot = (wide * shared + r) * splits + split
        tl.store(partial + slot[:, None] * D + d[None, :], acc, mask=q_mask)
        tl.store(stats + slot * 2, m, mask=r < shared)
        tl.store(stats + slot * 2 + 1, l, mask=r < shared)


@triton.jit
def combine(
    partial, stats, lengths, out, heads, length, splits,
    D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_S: tl.constexpr, CHUNK: tl.constexpr,
):
    row = tl.program_id(0)
    valid = tl.minimum(tl.load(lengths + row // heads), length).to(tl.int32)
    count = tl.cdiv(valid, CHUNK)
    base = row.to(tl.int64) * splits
    d = tl.arange(0, BLOCK_D)
    s = tl.arange(0, BLOCK_S)
    best = tl.full((BLOCK_S,), float("-inf"), dtype=tl.float32)
    for start in range(0, count, BLOCK_S):
        m = tl.load(stats + (base + start + s) * 2, mask=start + s < count, other=float("-inf"))
        best = tl.maximum(best, m)
    top = tl.max(best, 0)
    total = tl.zeros((BLOCK_S,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_D,), dtype=tl.float32)
    for start in range(0, count, BLOCK_S):
        inside = start + s < count
        slot = base + start + s
        m = tl.load(stats + slot * 2, mask=inside, other=float("-inf"))
        l = tl.load(stats + slot * 2 + 1, mask=inside, other=0.0)
        w = tl.exp2(m - top)
        total += w * l
        part = tl.load(partial + slot[:, None] * D + d[None, :],
                       mask=inside[:, None] & (d < D)[None, :], other=0.0)
        acc += tl.sum(part * w[:, None], 0)
    result = acc / tl.sum(total, 0)
    tl.store(out + row.to(tl.int64) * D + d, result.to(out.dtype.element_ty), mask=d < D)


class ModelNew(nn.Module):
    def forward(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, lengths: torch.Tensor
    ) -> torch.Tensor:
        query, keys, values, lengths = query.contiguous(), keys.contiguous(), values.contiguous(), lengths.contiguous()
        batch, heads, d = query.shape
        groups, length = keys.shape[1:3]
        shared = heads // groups
        out = torch.empty_like(query)
        if out.numel() == 0:
            return out
        CHUNK = 256
        splits = triton.cdiv(length, CHUNK)
        pairs = batch * groups
        block_d = max(16, triton.next_power_of_2(d))
        partial = torch.empty((batch * heads, splits, d), device=query.device, dtype=torch.float32)
        stats = torch.empty((batch * heads, splits, 2), device=query.device, dtype=torch.float32)
        decode_chunk[(pairs * splits,)](
            query, keys, values, lengths, partial, stats,
            pairs, groups, shared, length, splits, math.log2(math.e) / math.sqrt(d),
            D=d, BLOCK_D=block_d, BLOCK_R=max(16, triton.next_power_of_2(shared)), BLOCK_N=64, CHUNK=CHUNK,
            num_warps=4, num_stages=3,
        )
        combine[(batch * heads,)](
            partial, stats, lengths, out, heads, length, splits,
            D=d, BLOCK_D=block_d, BLOCK_S=min(16, triton.next_power_of_2(splits)), CHUNK=CHUNK,
            num_warps=4,
        )
        return out
