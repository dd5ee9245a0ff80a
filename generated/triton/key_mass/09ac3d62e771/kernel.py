import math

import torch
import triton
import triton.language as tl
from torch import nn


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 128, "BLOCK_N": 128}, num_warps=8, num_stages=2),
        triton.Config({"BLOCK_M": 128, "BLOCK_N": 64}, num_warps=8, num_stages=3),
        triton.Config({"BLOCK_M": 128, "BLOCK_N": 64}, num_warps=4, num_stages=3),
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 64}, num_warps=4, num_stages=3),
    ],
    key=["length", "features"],
)
@triton.jit
def attention_forward(query, key, value, out, lse, length, features, scale,
                      BLOCK_D: tl.constexpr, FULL_D: tl.constexpr,
                      BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    head = tl.program_id(0).to(tl.int64)
    block = tl.num_programs(1) - 1 - tl.program_id(1)
    start = block * BLOCK_M
    base = head * length * features
    # The number of row blocks is computed for BLOCK_M by the launcher's grid function.
    rows = start + tl.arange(0, BLOCK_M)
    d = tl.arange(0, BLOCK_D)
    n = tl.arange(0, BLOCK_N)
    row_inside = rows < length
    d_inside = d < features
    q = tl.load(query + base + rows[:, None] * features + d[None, :],
                mask=row_inside[:, None] & d_inside[None, :], other=0.0)
    acc = tl.zeros((BLOCK_M, BLOCK_D), dtype=tl.float32)
    m = tl.full((BLOCK_M,), -1.0e38, dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)

    # Blocks wholly before the diagonal: every key is inside and visible.
    for first in range(0, start, BLOCK_N):
        offset = (first + n)[:, None] * features + d[None, :]
        if FULL_D:
            k = tl.load(key + base + offset)
            v = tl.load(value + base + offset)
        else:
            k = tl.load(key + base + offset, mask=d_inside[None, :], other=0.0)
            v = tl.load(value + base + offset, mask=d_inside[None, :], other=0.0)
        s = tl.dot(q, tl.trans(k))
        m_new = tl.maximum(m, tl.max(s, 1) * scale)
        p = tl.exp2(s * scale - m_new[:, None])
        alpha = tl.exp2(m - m_new)
        total = total * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        acc = tl.dot(p.to(tl.bfloat16), v, acc)
        m = m_new

    # Blocks on the diagonal.
    end = tl.minimum(start + BLOCK_M, length)
    for first in range(start, end, BLOCK_N):
        columns = first + n
        inside = (columns < length)[:, None] & d_inside[None, :]
        offset = columns[:, None] * features + d[None, :]
        k = tl.load(key + base + offset, mask=inside, other=0.0)
        v = tl.load(value + base + offset, mask=inside, other=0.0)
        s = tl.dot(q, tl.trans(k)) * scale
        visible = (columns[None, :] <= rows[:, None]) & (columns[None, :] < length)
        s = tl.where(visible, s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        p = tl.exp2(s - m_new[:, None])
        alpha = tl.exp2(m - m_new)
        total = total * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        acc = tl.dot(p.to(tl.bfloat16), v, acc)
        m = m_new

    acc = acc / total[:, None]
    tl.store(out + base + rows[:, None] * features + d[None, :], acc.to(out.dtype.element_ty),
             mask=row_inside[:, None] & d_inside[None, :])
    tl.store(lse + head * length + rows, m + tl.log2(total), mask=row_inside)


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_N": 128, "BLOCK_M": 64}, num_warps=8, num_stages=3),
        triton.Config({"BLOCK_N": 128, "BLOCK_M": 128}, num_warps=8, num_stages=3),
        triton.Config({"BLOCK_N": 128, "BLOCK_M": 64}, num_warps=4, num_stages=4),
        triton.Config({"BLOCK_N": 64, "BLOCK_M": 64}, num_warps=4, num_stages=3),
    ],
    key=["length", "features"],
)
@triton.jit
def key_sums(query, key, lse, mass, length, features, scale,
             BLOCK_D: tl.constexpr, FULL_D: tl.constexpr,
             BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr):
    head = tl.program_id(0).to(tl.int64)
    start = tl.program_id(1) * BLOCK_N
    base = head * length * features
    columns = start + tl.arange(0, BLOCK_N)
    d = tl.arange(0, BLOCK_D)
    r = tl.arange(0, BLOCK_M)
    d_inside = d < features
    column_inside = columns < length
    k = tl.load(key + base + columns[:, None] * features + d[None, :],
                mask=column_inside[:, None] & d_inside[None, :], other=0.0)
    acc = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)

    # Queries that share a block with these keys.
    end = tl.minimum(start + BLOCK_N, length)
    for first in range(start, end, BLOCK_M):
        rows = first + r
        q = tl.load(query + base + rows[:, None] * features + d[None, :],
                    mask=(rows < length)[:, None] & d_inside[None, :], other=0.0)
        level = tl.load(lse + head * length + rows, mask=rows < length, other=float("inf"))
        s = tl.dot(k, tl.trans(q)) * scale - level[None, :]
        s = tl.where(rows[None, :] >= columns[:, None], s, float("-inf"))
        acc += tl.exp2(s)

    # Complete blocks of later queries.
    whole = (length // BLOCK_M) * BLOCK_M
    for first in range(start + BLOCK_N, whole, BLOCK_M):
        rows = first + r
        offset = rows[:, None] * features + d[None, :]
        if FULL_D:
            q = tl.load(query + base + offset)
        else:
            q = tl.load(query + base + offset, mask=d_inside[None, :], other=0.0)
        level = tl.load(lse + head * length + rows)
        s = tl.dot(k, tl.trans(q))
        acc += tl.exp2(s * scale - level[None, :])

    # The incomplete block at the end, if it lies after the diagonal block.
    for first in range(tl.maximum(start + BLOCK_N, whole), length, BLOCK_M):
        rows = first + r
        q = tl.load(query + base + rows[:, None] * features + d[None, :],
                    mask=(rows < length)[:, None] & d_inside[None, :], other=0.0)
        level = tl.load(lse + head * length + rows, mask=rows < length, other=float("inf"))
        acc += tl.exp2(tl.dot(k, tl.trans(q)) * scale - level[None, :])

    tl.store(mass + head * length + columns, tl.sum(acc, 1), mask=column_inside)


class ModelNew(nn.Module):
    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        query, key, value = query.contiguous(), key.contiguous(), value.contiguous()
        length, features = query.shape[-2], query.shape[-1]
        out = torch.empty_like(query)
        mass = torch.empty(query.shape[:-1], device=query.device, dtype=torch.float32)
        if out.numel() == 0:
            return out, mass
        heads = query.numel() // (length * features)
        lse = torch.empty((heads, length), device=query.device, dtype=torch.float32)
        scale = 1.4426950408889634 / math.sqrt(features)
        block_d = max(16, triton.next_power_of_2(features))
        full = block_d == features
        attention_forward[lambda meta: (heads, triton.cdiv(length, meta["BLOCK_M"]))](
            query, key, value, out, lse, length, features, scale, BLOCK_D=block_d, FULL_D=full)
        key_sums[lambda meta: (heads, triton.cdiv(length, meta["BLOCK_N"]))](
            query, key, lse, mass, length, features, scale, BLOCK_D=block_d, FULL_D=full)
        return out, mass
