import math

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def key_norms(key, norms, length, blocks, pairs, D: tl.constexpr, DP: tl.constexpr, BN: tl.constexpr):
    pid = tl.program_id(0)
    pair = (pid % pairs).to(tl.int64)
    block = pid // pairs
    rows = block * BN + tl.arange(0, BN)
    cols = tl.arange(0, DP)
    mask = (rows[:, None] < length) & (cols[None, :] < D)
    x = tl.load(key + pair * length * D + rows[:, None] * D + cols[None, :], mask=mask, other=0.0).to(tl.float32)
    tl.store(norms + pair * blocks + block, tl.max(tl.sum(x * x, axis=1), axis=0))


@triton.jit
def alibi_forward(query, key, value, slopes, norms, out, length, blocks, heads, pairs, scale,
                  D: tl.constexpr, DP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, NB: tl.constexpr):
    LOG2E: tl.constexpr = 1.4426950408889634
    pid = tl.program_id(0)
    pair = (pid % pairs).to(tl.int64)
    tile = tl.num_programs(0) // pairs - 1 - pid // pairs
    m0 = tile * BM
    base = pair * length * D
    rows = m0 + tl.arange(0, BM)
    cols = tl.arange(0, DP)
    keys = tl.arange(0, BN)
    scale2 = scale * LOG2E
    slope2 = tl.load(slopes + pair % heads).to(tl.float32) * LOG2E

    if D == DP:
        q = tl.load(query + base + rows[:, None] * D + cols[None, :], mask=rows[:, None] < length, other=0.0)
    else:
        q = tl.load(query + base + rows[:, None] * D + cols[None, :],
                    mask=(rows[:, None] < length) & (cols[None, :] < D), other=0.0)

    top = tl.full((BM,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BM,), dtype=tl.float32)
    acc = tl.zeros((BM, DP), dtype=tl.float32)

    # The diagonal tile, masked.
    for start in range(m0, tl.minimum(m0 + BM, length), BN):
        j = start + keys
        inside = (j[:, None] < length) & (cols[None, :] < D)
        k = tl.load(key + base + j[:, None] * D + cols[None, :], mask=inside, other=0.0)
        s = tl.dot(q, tl.trans(k)) * scale2 + ((j - m0).to(tl.float32) * slope2)[None, :]
        s = tl.where((j[None, :] <= rows[:, None]) & (j[None, :] < length), s, float("-inf"))
        new = tl.maximum(top, tl.max(s, axis=1))
        p = tl.exp2(s - new[:, None])
        shrink = tl.exp2(top - new)
        total = total * shrink + tl.sum(p, axis=1)
        acc = acc * shrink[:, None]
        v = tl.load(value + base + j[:, None] * D + cols[None, :], mask=inside, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc)
        top = new

    # How far back can a key still matter?
    places = tl.arange(0, NB)
    largest = tl.max(tl.load(norms + pair * blocks + places, mask=places < blocks, other=0.0), axis=0)
    qf = q.to(tl.float32)
    bound = tl.sqrt(tl.sum(qf * qf, axis=1) * largest) * (scale2 * 1.01) + 1e-3
    limit = -1.0 * length
    reach = (top - 50.0 - bound) / slope2
    reach = tl.where((reach > limit) & (slope2 > 0.0), reach, limit)
    reach = tl.where(rows < length, reach, 0.0)
    nearest = tl.minimum(tl.min(reach, axis=0), 0.0)
    first = tl.maximum(m0 + tl.floor(nearest).to(tl.int32), 0)
    first = (first // BN) * BN

    for start in range(first, m0, BN):
        start = tl.multiple_of(start, BN)
        j = start + keys
        if D == DP:
            k = tl.load(key + base + j[:, None] * D + cols[None, :])
        else:
            k = tl.load(key + base + j[:, None] * D + cols[None, :], mask=cols[None, :] < D, other=0.0)
        s = tl.dot(q, tl.trans(k)) * scale2 + ((j - m0).to(tl.float32) * slope2)[None, :]
        new = tl.maximum(top, tl.max(s, axis=1))
        p = tl.exp2(s - new[:, None])
        shrink = tl.exp2(top - new)
        total = total * shrink + tl.sum(p, axis=1)
        acc = acc * shrink[:, None]
        if D == DP:
            v = tl.load(value + base + j[:, None] * D + cols[None, :])
        else:
            v = tl.load(value + base + j[:, None] * D + cols[None, :], mask=cols[None, :] < D, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc)
        top = new

    acc = acc / total[:, None]
    tl.store(out + base + rows[:, None] * D + cols[None, :], acc.to(out.dtype.element_ty),
             mask=(rows[:, None] < length) & (cols[None, :] < D))


class ModelNew(nn.Module):
    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, slopes: torch.Tensor
    ) -> torch.Tensor:
        query, key, value, slopes = query.contiguous(), key.contiguous(), value.contiguous(), slopes.contiguous()
        batch, heads, length, features = query.shape
        out = torch.empty_like(query)
        if out.numel() == 0:
            return out
        padded = max(16, triton.next_power_of_2(features))
        rows = 128 if length > 256 else 64
        columns = 64
        chunk = 64
        pairs = batch * heads
        blocks = triton.cdiv(length, chunk)
        norms = torch.empty((pairs, blocks), device=query.device, dtype=torch.float32)
        key_norms[(pairs * blocks,)](key, norms, length, blocks, pairs, D=features, DP=padded, BN=chunk, num_warps=4)
        alibi_forward[(pairs * triton.cdiv(length, rows),)](
            query, key, value, slopes, norms, out, length, blocks, heads, pairs, 1.0 / math.sqrt(features),
            D=features, DP=padded, BM=rows, BN=columns, NB=triton.next_power_of_2(blocks),
            num_warps=8 if rows == 128 else 4, num_stages=3)
        return out
