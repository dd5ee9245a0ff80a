import math

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def attend_chunk(query, key, value, keys, values, lengths, partial, maxima, sums,
                 heads, places, features, scale,
                 kb, kh, kn, kd, vb, vh, vn, vd, splits,
                 CHUNK: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, FULL_D: tl.constexpr):
    split = tl.program_id(0)
    pair = tl.program_id(1).to(tl.int64)
    batch = pair // heads
    head = pair % heads
    length = tl.load(lengths + batch).to(tl.int32)
    start = split * CHUNK
    if start <= length:
        d = tl.arange(0, BLOCK_D)
        n = tl.arange(0, BLOCK_N)
        inside = d < features
        q = tl.load(query + pair * features + d, mask=inside, other=0.0) * scale
        new_key = tl.load(key + pair * features + d, mask=inside, other=0.0)
        new_value = tl.load(value + pair * features + d, mask=inside, other=0.0)
        k_base = keys + batch * kb + head * kh
        v_base = values + batch * vb + head * vh
        if length < start + CHUNK:
            place = length.to(tl.int64)
            tl.store(k_base + place * kn + d * kd, new_key, mask=inside)
            tl.store(v_base + place * vn + d * vd, new_value, mask=inside)

        m = tl.full((BLOCK_N,), -1.0e38, dtype=tl.float32)
        total = tl.zeros((BLOCK_N,), dtype=tl.float32)
        acc = tl.zeros((BLOCK_N, BLOCK_D), dtype=tl.float32)

        # Blocks wholly before the new place need no mask along the places.
        stop = tl.minimum(start + CHUNK, length + 1)
        whole = start + ((tl.minimum(start + CHUNK, length) - start) // BLOCK_N) * BLOCK_N
        for first in range(start, whole, BLOCK_N):
            rows = (first + n).to(tl.int64)
            k_ptr = k_base + rows[:, None] * kn + d[None, :] * kd
            v_ptr = v_base + rows[:, None] * vn + d[None, :] * vd
            if FULL_D:
                k = tl.load(k_ptr, eviction_policy="evict_first")
                v = tl.load(v_ptr, eviction_policy="evict_first")
            else:
                k = tl.load(k_ptr, mask=inside[None, :], other=0.0)
                v = tl.load(v_ptr, mask=inside[None, :], other=0.0)
            s = tl.sum(k * q[None, :], 1)
            m_new = tl.maximum(m, s)
            alpha = tl.exp2(m - m_new)
            p = tl.exp2(s - m_new)
            total = total * alpha + p
            acc = acc * alpha[:, None] + p[:, None] * v
            m = m_new
        # The last block of the sequence, with the new row in it or right behind it.
        for first in range(whole, stop, BLOCK_N):
            places_here = first + n
            rows = places_here.to(tl.int64)
            old = (places_here < length)[:, None] & inside[None, :]
            fresh = (places_here == length)[:, None]
            k = tl.load(k_base + rows[:, None] * kn + d[None, :] * kd, mask=old, other=0.0)
            v = tl.load(v_base + rows[:, None] * vn + d[None, :] * vd, mask=old, other=0.0)
            k = tl.where(fresh, new_key[None, :], k)
            v = tl.where(fresh, new_value[None, :], v)
            s = tl.sum(k * q[None, :], 1)
            s = tl.where(places_here <= length, s, float("-inf"))
            m_new = tl.maximum(m, s)
            alpha = tl.exp2(m - m_new)
            p = tl.exp2(s - m_new)
            total = total * alpha + p
            acc = acc * alpha[:, None] + p[:, None] * v
            m = m_new

        top = tl.max(m, 0)
        w = tl.exp2(m - top)
        result = tl.sum(acc * w[:, None], 0)
        slot = pair * splits + split
        tl.store(partial + slot * features + d, result, mask=inside)
        tl.store(maxima + slot, top)
        tl.store(sums + slot, tl.sum(total * w, 0))


@triton.jit
def merge_chunks(partial, maxima, sums, lengths, out, heads, features, splits,
                 CHUNK: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_S: tl.constexpr):
    pair = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + pair // heads).to(tl.int32)
    used = length // CHUNK + 1
    s = tl.arange(0, BLOCK_S)
    d = tl.arange(0, BLOCK_D)
    inside = d < features
    valid = s < used
    m = tl.load(maxima + pair * splits + s, mask=valid, other=float("-inf"))
    l = tl.load(sums + pair * splits + s, mask=valid, other=0.0)
    part = tl.load(partial + (pair * splits + s)[:, None] * features + d[None, :],
                   mask=valid[:, None] & inside[None, :], other=0.0)
    top = tl.max(m, 0)
    w = tl.exp2(m - top)
    result = tl.sum(part * w[:, None], 0) / tl.sum(l * w, 0)
    tl.store(out + pair * features + d, result, mask=inside)


class ModelNew(nn.Module):
    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        lengths: torch.Tensor,
    ) -> torch.Tensor:
        query, key, value, lengths = query.contiguous(), key.contiguous(), value.contiguous(), lengths.contiguous()
        batch, heads, features = query.shape
        places = keys.shape[2]
        out = torch.empty_like(query)
        if out.numel() == 0:
            return out
        chunk, block_n = 256, 32
        splits = triton.cdiv(places, chunk)
        pairs = batch * heads
        block_d = triton.next_power_of_2(features)
        partial = torch.empty((pairs, splits, features), device=query.device, dtype=torch.float32)
        maxima = torch.empty((pairs, splits), device=query.device, dtype=torch.float32)
        sums = torch.empty((pairs, splits), device=query.device, dtype=torch.float32)
        scale = 1.4426950408889634 / math.sqrt(features)
        attend_chunk[(splits, pairs)](
            query, key, value, keys, values, lengths, partial, maxima, sums,
            heads, places, features, scale,
            keys.stride(0), keys.stride(1), keys.stride(2), keys.stride(3),
            values.stride(0), values.stride(1), values.stride(2), values.stride(3), splits,
            CHUNK=chunk, BLOCK_N=block_n, BLOCK_D=block_d, FULL_D=block_d == features, num_warps=4)
        merge_chunks[(pairs,)](partial, maxima, sums, lengths, out, heads, features, splits,
                               CHUNK=chunk, BLOCK_D=block_d, BLOCK_S=triton.next_power_of_2(splits), num_warps=2)
        return out
