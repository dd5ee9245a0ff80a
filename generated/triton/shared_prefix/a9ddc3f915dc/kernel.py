import math

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def partials(query, prefix, tail, part, part_m, part_l, B, H, P, T, NS, NB, scale,
             D: tl.constexpr, BD: tl.constexpr, BB: tl.constexpr, SPLIT: tl.constexpr,
             BN: tl.constexpr, BT: tl.constexpr):
    pid = tl.program_id(0)
    n_prefix = H * NS * NB
    offs_d = tl.arange(0, BD)
    if pid < n_prefix:
        split = pid % NS
        h = (pid // NS) % H
        nb = pid // (NS * H)
        offs_b = nb * BB + tl.arange(0, BB)
        q = tl.load(query + (offs_b[:, None] * H + h) * D + offs_d[None, :],
                    mask=(offs_b[:, None] < B) & (offs_d[None, :] < D), other=0.0)
        k_base = prefix + h.to(tl.int64) * P * D
        v_base = prefix + (H + h).to(tl.int64) * P * D
        begin = split * SPLIT
        end = tl.minimum(begin + SPLIT, P)
        m = tl.full((BB,), -float("inf"), dtype=tl.float32)
        l = tl.zeros((BB,), dtype=tl.float32)
        acc = tl.zeros((BB, BD), dtype=tl.float32)
        for start in range(begin, end, BN):
            cols = start + tl.arange(0, BN)
            k = tl.load(k_base + cols[None, :] * D + offs_d[:, None],
                        mask=(cols[None, :] < end) & (offs_d[:, None] < D), other=0.0)
            v = tl.load(v_base + cols[:, None] * D + offs_d[None, :],
                        mask=(cols[:, None] < end) & (offs_d[None, :] < D), other=0.0)
            s = tl.dot(q, k) * scale
            s = tl.where(cols[None, :] < end, s, -float("inf"))
            m_new = tl.maximum(m, tl.max(s, axis=1))
            p = tl.exp2(s - m_new[:, None])
            alpha = tl.exp2(m - m_new)
            l = l * alpha + tl.sum(p, axis=1)
            acc = acc * alpha[:, None]
            acc = tl.dot(p.to(v.dtype), v, acc)
            m = m_new
        slot = (split * B + offs_b) * H + h
        tl.store(part_m + slot, m, mask=offs_b < B)
        tl.store(part_l + slot, l, mask=offs_b < B)
        tl.store(part + slot[:, None].to(tl.int64) * D + offs_d[None, :], acc,
                 mask=(offs_b[:, None] < B) & (offs_d[None, :] < D))
    else:
        bh = pid - n_prefix
        q1 = tl.load(query + bh * D + offs_d, mask=offs_d < D, other=0.0).to(tl.float32) * scale
        k_row = tail + bh.to(tl.int64) * T * D
        v_row = tail + (B * H + bh).to(tl.int64) * T * D
        offs_t = tl.arange(0, BT)
        m1 = tl.full((BT,), -1.0e30, dtype=tl.float32)
        l1 = tl.zeros((BT,), dtype=tl.float32)
        acc1 = tl.zeros((BT, BD), dtype=tl.float32)
        for start1 in range(0, T, BT):
            rows = start1 + offs_t
            inside = (rows[:, None] < T) & (offs_d[None, :] < D)
            where = rows[:, None] * D + offs_d[None, :]
            kt = tl.load(k_row + where, mask=inside, other=0.0)
            vt = tl.load(v_row + where, mask=inside, other=0.0)
            s1 = tl.sum(kt.to(tl.float32) * q1[None, :], axis=1)
            s1 = tl.where(rows < T, s1, -1.0e30)
            m1_new = tl.maximum(m1, s1)
            alpha1 = tl.exp2(m1 - m1_new)
            p1 = tl.exp2(s1 - m1_new)
            l1 = l1 * alpha1 + p1
            acc1 = acc1 * alpha1[:, None] + p1[:, None] * vt.to(tl.float32)
            m1 = m1_new
        top = tl.max(m1, axis=0)
        w = tl.exp2(m1 - top)
        total = tl.sum(l1 * w, axis=0)
        mixed = tl.sum(acc1 * w[:, None], axis=0)
        slot1 = NS * B * H + bh
        tl.store(part_m + slot1, top)
        tl.store(part_l + slot1, total)
        tl.store(part + slot1.to(tl.int64) * D + offs_d, mixed, mask=offs_d < D)


@triton.jit
def merge(part, part_m, part_l, out, BH, N, D: tl.constexpr, BD: tl.constexpr, NP: tl.constexpr):
    bh = tl.program_id(0)
    offs_s = tl.arange(0, NP)
    offs_d = tl.arange(0, BD)
    slot = offs_s * BH + bh
    m = tl.load(part_m + slot, mask=offs_s < N, other=-1.0e30)
    l = tl.load(part_l + slot, mask=offs_s < N, other=0.0)
    acc = tl.load(part + slot[:, None].to(tl.int64) * D + offs_d[None, :],
                  mask=(offs_s[:, None] < N) & (offs_d[None, :] < D), other=0.0)
    w = tl.exp2(m - tl.max(m, axis=0))
    total = tl.sum(l * w, axis=0)
    result = tl.sum(acc * w[:, None], axis=0) / total
    tl.store(out + bh.to(tl.int64) * D + offs_d, result.to(out.dtype.element_ty), mask=offs_d < D)


class ModelNew(nn.Module):
    def forward(self, query: torch.Tensor, prefix: torch.Tensor, tail: torch.Tensor) -> torch.Tensor:
        query, prefix, tail = query.contiguous(), prefix.contiguous(), tail.contiguous()
        batch, heads, features = query.shape
        length, own = prefix.shape[-2], tail.shape[-2]
        out = torch.empty_like(query)
        if out.numel() == 0:
            return out
        split = 256
        splits = triton.cdiv(length, split)
        block_d = max(16, triton.next_power_of_2(features))
        block_b = min(64, max(16, triton.next_power_of_2(batch)))
        blocks_b = triton.cdiv(batch, block_b)
        pairs = batch * heads
        part = torch.empty((splits + 1, pairs, features), device=query.device, dtype=torch.float32)
        part_m = torch.empty((splits + 1, pairs), device=query.device, dtype=torch.float32)
        part_l = torch.empty((splits + 1, pairs), device=query.device, dtype=torch.float32)
        scale = 1.4426950408889634 / math.sqrt(features)
        partials[(heads * splits * blocks_b + pairs,)](
            query, prefix, tail, part, part_m, part_l, batch, heads, length, own, splits, blocks_b, scale,
            D=features, BD=block_d, BB=block_b, SPLIT=split, BN=64, BT=64,
            num_warps=4, num_stages=2,
        )
        merge[(pairs,)](
            part, part_m, part_l, out, pairs, splits + 1,
            D=features, BD=block_d, NP=triton.next_power_of_2(splits + 1), num_warps=4,
        )
        return out
