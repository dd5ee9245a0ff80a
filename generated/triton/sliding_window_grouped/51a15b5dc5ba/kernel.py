import math

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def _window_tiles(
    q, key, value, acc, m, l, lo, hi, rows, window, scale,
    D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr,
):
    lanes = tl.arange(0, BLOCK)
    d = tl.arange(0, BLOCK_D)
    offset = lanes[:, None] * D + d[None, :]
    for start in range(lo, hi, BLOCK):
        if BLOCK_D == D:
            k = tl.load(key + start * D + offset)
            v = tl.load(value + start * D + offset)
        else:
            k = tl.load(key + start * D + offset, mask=d[None, :] < D, other=0.0)
            v = tl.load(value + start * D + offset, mask=d[None, :] < D, other=0.0)
        s = tl.dot(q, tl.trans(k))
        if MASKED:
            distance = rows[:, None] - (start + lanes)[None, :]
            s = tl.where(distance < window, s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1) * scale)
        alpha = tl.exp2(m - m_new)
        p = tl.exp2(s * scale - m_new[:, None])
        l = l * alpha + tl.sum(p, 1)
        m = m_new
        acc = acc * alpha[:, None]
        acc = tl.dot(p.to(v.dtype), v, acc)
    return acc, m, l


@triton.jit
def window_attention(
    query, key, value, out,
    pairs, shared, length, window, scale,
    D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK: tl.constexpr,
):
    pid = tl.program_id(0)
    pair = pid % pairs
    tile = tl.cdiv(length, BLOCK) - 1 - pid // pairs
    # query pair = batch * heads + head; key pair = batch * groups + head // shared = pair // shared.
    qbase = pair.to(tl.int64) * length * D
    kbase = (pair // shared).to(tl.int64) * length * D
    key += kbase
    value += kbase

    begin = tile * BLOCK
    lanes = tl.arange(0, BLOCK)
    d = tl.arange(0, BLOCK_D)
    rows = begin + lanes
    offset = rows[:, None] * D + d[None, :]
    if BLOCK_D == D:
        mask = (rows < length)[:, None]
    else:
        mask = (rows < length)[:, None] & (d[None, :] < D)
    q = tl.load(query + qbase + offset, mask=mask, other=0.0)

    # The diagonal tile: every row sees itself.
    k = tl.load(key + offset, mask=mask, other=0.0)
    v = tl.load(value + offset, mask=mask, other=0.0)
    s = tl.dot(q, tl.trans(k))
    distance = lanes[:, None] - lanes[None, :]
    s = tl.where((distance >= 0) & (distance < window), s, float("-inf"))
    m = tl.max(s, 1) * scale
    p = tl.exp2(s * scale - m[:, None])
    l = tl.sum(p, 1)
    acc = tl.dot(p.to(v.dtype), v)

    lo = tl.maximum(begin - window + 1, 0) // BLOCK * BLOCK
    lo = tl.minimum(lo, begin)
    full = tl.cdiv(tl.maximum(begin + BLOCK - window, 0), BLOCK) * BLOCK
    full = tl.minimum(tl.maximum(full, lo), begin)
    acc, m, l = _window_tiles(
        q, key, value, acc, m, l, full, begin, rows, window, scale, D, BLOCK_D, BLOCK, False)
    acc, m, l = _window_tiles(
        q, key, value, acc, m, l, lo, full, rows, window, scale, D, BLOCK_D, BLOCK, True)

    result = acc / l[:, None]
    tl.store(out + qbase + offset, result.to(out.dtype.element_ty), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, window: int):
        super().__init__()
        self.window = window

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        query, key, value = query.contiguous(), key.contiguous(), value.contiguous()
        batch, heads, length, d = query.shape
        groups = key.shape[1]
        out = torch.empty_like(query)
        if out.numel() == 0:
            return out
        BLOCK = 64
        pairs = batch * heads
        grid = (triton.cdiv(length, BLOCK) * pairs,)
        window_attention[grid](
            query, key, value, out,
            pairs, heads // groups, length, self.window, math.log2(math.e) / math.sqrt(d),
            D=d, BLOCK_D=max(16, triton.next_power_of_2(d)), BLOCK=BLOCK,
            num_warps=4, num_stages=2,
        )
        return out
