import math

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def _softmax_step(scores, m, l, scale):
    m_new = tl.maximum(m, tl.max(scores, 1) * scale)
    alpha = tl.exp2(m - m_new)
    p = tl.exp2(scores * scale - m_new[:, None])
    l = l * alpha + tl.sum(p, 1)
    return p, alpha, m_new, l


@triton.jit
def differential_kernel(
    query, key, value, strength, out,
    heads, length, pairs, scale,
    D: tl.constexpr, DV: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr, BLOCK: tl.constexpr,
):
    pid = tl.program_id(0)
    pair = pid % pairs
    tile = tl.cdiv(length, BLOCK) - 1 - pid // pairs
    batch = pair // heads
    head = pair % heads
    first = (batch * 2 * heads + head).to(tl.int64) * length * D
    second = ((batch * 2 + 1) * heads + head).to(tl.int64) * length * D
    vbase = pair.to(tl.int64) * length * DV

    begin = tile * BLOCK
    rows = begin + tl.arange(0, BLOCK)
    lanes = tl.arange(0, BLOCK)
    d = tl.arange(0, BLOCK_D)
    dv = tl.arange(0, BLOCK_DV)
    row_in = rows < length

    q_offset = rows[:, None] * D + d[None, :]
    if BLOCK_D == D:
        q_mask = row_in[:, None]
    else:
        q_mask = row_in[:, None] & (d[None, :] < D)
    q1 = tl.load(query + first + q_offset, mask=q_mask, other=0.0)
    q2 = tl.load(query + second + q_offset, mask=q_mask, other=0.0)

    m1 = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    m2 = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    l1 = tl.zeros((BLOCK,), dtype=tl.float32)
    l2 = tl.zeros((BLOCK,), dtype=tl.float32)
    acc1 = tl.zeros((BLOCK, BLOCK_DV), dtype=tl.float32)
    acc2 = tl.zeros((BLOCK, BLOCK_DV), dtype=tl.float32)

    k_offset = lanes[:, None] * D + d[None, :]
    v_offset = lanes[:, None] * DV + dv[None, :]

    # Tiles wholly before the diagonal: every key is in range and visible.
    for start in range(0, begin, BLOCK):
        k1_ptr = key + first + start * D + k_offset
        k2_ptr = key + second + start * D + k_offset
        v_ptr = value + vbase + start * DV + v_offset
        if BLOCK_D == D:
            k1 = tl.load(k1_ptr)
            k2 = tl.load(k2_ptr)
        else:
            k1 = tl.load(k1_ptr, mask=d[None, :] < D, other=0.0)
            k2 = tl.load(k2_ptr, mask=d[None, :] < D, other=0.0)
        if BLOCK_DV == DV:
            v = tl.load(v_ptr)
        else:
            v = tl.load(v_ptr, mask=dv[None, :] < DV, other=0.0)
        s1 = tl.dot(q1, tl.trans(k1))
        p1, alpha1, m1, l1 = _softmax_step(s1, m1, l1, scale)
        acc1 = acc1 * alpha1[:, None]
        acc1 = tl.dot(p1.to(v.dtype), v, acc1)
        s2 = tl.dot(q2, tl.trans(k2))
        p2, alpha2, m2, l2 = _softmax_step(s2, m2, l2, scale)
        acc2 = acc2 * alpha2[:, None]
        acc2 = tl.dot(p2.to(v.dtype), v, acc2)

    # The diagonal tile.
    if BLOCK_DV == DV:
        v_mask = row_in[:, None]
    else:
        v_mask = row_in[:, None] & (dv[None, :] < DV)
    k1 = tl.load(key + first + begin * D + k_offset, mask=q_mask, other=0.0)
    k2 = tl.load(key + second + begin * D + k_offset, mask=q_mask, other=0.0)
    v = tl.load(value + vbase + begin * DV + v_offset, mask=v_mask, other=0.0)
    visible = lanes[:, None] >= lanes[None, :]
    s1 = tl.dot(q1, tl.trans(k1))
    s1 = tl.where(visible, s1, float("-inf"))
    p1, alpha1, m1, l1 = _softmax_step(s1, m1, l1, scale)
    acc1 = acc1 * alpha1[:, None]
    acc1 = tl.dot(p1.to(v.dtype), v, acc1)
    s2 = tl.dot(q2, tl.trans(k2))
    s2 = tl.where(visible, s2, float("-inf"))
    p2, alpha2, m2, l2 = _softmax_step(s2, m2, l2, scale)
    acc2 = acc2 * alpha2[:, None]
    acc2 = tl.dot(p2.to(v.dtype), v, acc2)

    lam = tl.load(strength + head).to(tl.float32)
    w1 = 1.0 / l1
    w2 = lam / l2
    result = acc1 * w1[:, None] - acc2 * w2[:, None]
    o_offset = rows[:, None] * DV + dv[None, :]
    tl.store(out + vbase + o_offset, result.to(out.dtype.element_ty), mask=v_mask)


class ModelNew(nn.Module):
    def __init__(self, heads: int):
        super().__init__()
        self.strength = nn.Parameter(0.3 + 0.4 * torch.rand(heads))

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        query, key, value = query.contiguous(), key.contiguous(), value.contiguous()
        batch, heads, length, dv = value.shape
        d = query.shape[-1]
        out = torch.empty_like(value)
        if out.numel() == 0:
            return out
        BLOCK = 64
        block_d = max(16, triton.next_power_of_2(d))
        block_dv = max(16, triton.next_power_of_2(dv))
        pairs = batch * heads
        grid = (triton.cdiv(length, BLOCK) * pairs,)
        differential_kernel[grid](
            query, key, value, self.strength, out,
            heads, length, pairs, math.log2(math.e) / math.sqrt(d),
            D=d, DV=dv, BLOCK_D=block_d, BLOCK_DV=block_dv, BLOCK=BLOCK,
            num_warps=4 if block_dv <= 128 else 8, num_stages=2,
        )
        return out
