import math

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def paged_partial(query, cache, table, parts, tops, totals, half, heads, groups, pages, per_split, splits, scale,
                  SHARED: tl.constexpr, ROWS: tl.constexpr, PAGE: tl.constexpr, TN: tl.constexpr,
                  PIECES: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, EVEN: tl.constexpr,
                  STAGES: tl.constexpr):
    split = tl.program_id(0)
    which = tl.program_id(1)
    batch = which // groups
    group = which % groups

    rows = tl.arange(0, ROWS)
    columns = tl.arange(0, DP)
    head = batch * heads + group * SHARED + rows
    q = tl.load(query + head[:, None].to(tl.int64) * D + columns[None, :],
                mask=(rows[:, None] < SHARED) & (columns[None, :] < D), other=0.0)

    top = tl.full((ROWS,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((ROWS,), dtype=tl.float32)
    acc = tl.zeros((ROWS, DP), dtype=tl.float32)

    stride = groups * D
    steps = tl.arange(0, TN)
    tile = steps[:, None] * stride + columns[None, :]
    values = cache + half
    line = table + batch.to(tl.int64) * pages
    begin = split * per_split
    end = tl.minimum(begin + per_split, pages)
    for i in tl.range(begin * PIECES, end * PIECES, num_stages=STAGES):
        page = tl.load(line + i // PIECES).to(tl.int64)
        first = (i % PIECES) * TN
        from_ = (page * PAGE + first) * stride + group * D
        valid = (first + steps[:, None] < PAGE) & (columns[None, :] < D)
        if EVEN:
            k = tl.load(cache + from_ + tile)
        else:
            k = tl.load(cache + from_ + tile, mask=valid, other=0.0)
        scores = tl.dot(q, tl.trans(k)) * scale
        if not EVEN:
            scores = tl.where(first + steps[None, :] < PAGE, scores, float("-inf"))
        high = tl.maximum(top, tl.max(scores, 1))
        shrink = tl.exp2(top - high)
        p = tl.exp2(scores - high[:, None])
        total = total * shrink + tl.sum(p, 1)
        acc = acc * shrink[:, None]
        if EVEN:
            v = tl.load(values + from_ + tile)
        else:
            v = tl.load(values + from_ + tile, mask=valid, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc)
        top = high

    place = head.to(tl.int64) * splits + split
    tl.store(tops + place, top, mask=rows < SHARED)
    tl.store(totals + place, total, mask=rows < SHARED)
    tl.store(parts + place[:, None] * D + columns[None, :], acc,
             mask=(rows[:, None] < SHARED) & (columns[None, :] < D))


@triton.jit
def paged_merge(parts, tops, totals, out, splits, D: tl.constexpr, DP: tl.constexpr, SP: tl.constexpr):
    head = tl.program_id(0).to(tl.int64)
    number = tl.arange(0, SP)
    columns = tl.arange(0, DP)
    there = number < splits
    top = tl.load(tops + head * splits + number, mask=there, other=float("-inf"))
    total = tl.load(totals + head * splits + number, mask=there, other=0.0)
    acc = tl.load(parts + (head * splits + number[:, None]) * D + columns[None, :],
                  mask=there[:, None] & (columns[None, :] < D), other=0.0)
    weight = tl.exp2(top - tl.max(top, 0))
    result = tl.sum(acc * weight[:, None], 0) / tl.sum(total * weight, 0)
    tl.store(out + head * D + columns, result.to(out.dtype.element_ty), mask=columns < D)


class ModelNew(nn.Module):
    def forward(self, query: torch.Tensor, cache: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        query, cache, table = query.contiguous(), cache.contiguous(), table.contiguous()
        batch, heads, features = query.shape
        page, groups = cache.shape[2], cache.shape[3]
        pages = table.shape[1]
        out = torch.empty_like(query)
        if out.numel() == 0:
            return out
        shared = heads // groups
        splits = min(pages, max(1, triton.cdiv(512, batch * groups)))
        per_split = triton.cdiv(pages, splits)
        splits = triton.cdiv(pages, per_split)
        parts = torch.empty((batch * heads * splits, features), device=query.device, dtype=torch.float32)
        tops = torch.empty(batch * heads * splits, device=query.device, dtype=torch.float32)
        totals = torch.empty(batch * heads * splits, device=query.device, dtype=torch.float32)
        padded = max(16, triton.next_power_of_2(features))
        tn = min(64, max(16, triton.next_power_of_2(page)))
        paged_partial[(splits, batch * groups)](
            query, cache, table, parts, tops, totals, cache.numel() // 2, heads, groups, pages, per_split, splits,
            math.log2(math.e) / math.sqrt(features),
            SHARED=shared, ROWS=max(16, triton.next_power_of_2(shared)), PAGE=page, TN=tn,
            PIECES=triton.cdiv(page, tn), D=features, DP=padded,
            EVEN=(page % tn == 0 and padded == features), STAGES=3, num_warps=4,
        )
        paged_merge[(batch * heads,)](
            parts, tops, totals, out, splits, D=features, DP=padded, SP=triton.next_power_of_2(splits), num_warps=4,
        )
        return out
