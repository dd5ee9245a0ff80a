import math

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def decode_split(query, codes, scales, offsets, partial, stats, length, per, splits, pairs, scale,
                 HG: tl.constexpr, H: tl.constexpr, D: tl.constexpr, SH2: tl.constexpr, SP: tl.constexpr,
                 NG: tl.constexpr, NP: tl.constexpr, BN: tl.constexpr):
    C: tl.constexpr = NP * SP
    MAGIC: tl.constexpr = 0x43000000
    pid = tl.program_id(0)
    split = pid % splits
    pair = (pid // splits).to(tl.int64)
    begin = split * per
    end = tl.minimum(begin + per, length)

    h = tl.arange(0, H)
    c = tl.arange(0, C)
    group = c // SP
    within = c % SP
    even = 2 * (group * SH2 + within)
    qmask = (h[:, None] < HG) & (group[None, :] < NG) & (within[None, :] < SH2)
    qbase = query + (pair * HG + h[:, None]) * D + even[None, :]
    q_low = tl.load(qbase, mask=qmask, other=0.0)
    q_high = tl.load(qbase + 1, mask=qmask, other=0.0)

    rows = tl.arange(0, BN)
    g3 = tl.arange(0, NP)[None, :, None]
    c3 = tl.arange(0, SP)[None, None, :]
    gs = tl.arange(0, NP)[None, :]
    top = tl.full((H,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((H,), dtype=tl.float32)
    acc_low = tl.zeros((H, C), dtype=tl.float32)
    acc_high = tl.zeros((H, C), dtype=tl.float32)
    kcodes = codes + pair * length * (D // 2)
    vcodes = codes + (pair + pairs) * length * (D // 2)
    kside = pair * length * NG
    vside = (pair + pairs) * length * NG

    for start in range(begin, end, BN):
        j = start + rows
        j3 = j[:, None, None]
        place = j3 * (D // 2) + g3 * SH2 + c3
        mask = (j3 < length) & (g3 < NG) & (c3 < SH2)
        smask = (j[:, None] < length) & (gs < NG)
        splace = j[:, None] * NG + gs
        kc = tl.load(kcodes + place, mask=mask, other=0).to(tl.int32)
        vc = tl.load(vcodes + place, mask=mask, other=0).to(tl.int32)
        ks = tl.load(scales + kside + splace, mask=smask, other=0.0).to(tl.float32)
        ko = tl.load(offsets + kside + splace, mask=smask, other=0.0).to(tl.float32)
        vs = tl.load(scales + vside + splace, mask=smask, other=0.0).to(tl.float32)
        vo = tl.load(offsets + vside + splace, mask=smask, other=0.0).to(tl.float32)
        ko = ko - 128.0 * ks
        vo = vo - 128.0 * vs

        low = (((kc & 15) << 16) | MAGIC).to(tl.float32, bitcast=True)
        high = (((kc & 240) << 12) | MAGIC).to(tl.float32, bitcast=True)
        low = (low * ks[:, :, None] + ko[:, :, None]).to(tl.bfloat16)
        high = (high * ks[:, :, None] + ko[:, :, None]).to(tl.bfloat16)
        s = tl.dot(q_low, tl.trans(tl.reshape(low, (BN, C))))
        s = tl.dot(q_high, tl.trans(tl.reshape(high, (BN, C))), s)
        s = tl.where(j[None, :] < length, s * scale, float("-inf"))

        new = tl.maximum(top, tl.max(s, axis=1))
        p = tl.exp(s - new[:, None])
        shrink = tl.exp(top - new)
        total = total * shrink + tl.sum(p, axis=1)
        top = new
        p16 = p.to(tl.bfloat16)
        low = (((vc & 15) << 16) | MAGIC).to(tl.float32, bitcast=True)
        high = (((vc & 240) << 12) | MAGIC).to(tl.float32, bitcast=True)
        low = (low * vs[:, :, None] + vo[:, :, None]).to(tl.bfloat16)
        high = (high * vs[:, :, None] + vo[:, :, None]).to(tl.bfloat16)
        acc_low = tl.dot(p16, tl.reshape(low, (BN, C)), acc_low * shrink[:, None])
        acc_high = tl.dot(p16, tl.reshape(high, (BN, C)), acc_high * shrink[:, None])

    # partial [pair, head, split, 2, C], stats [pair, head, split, 2]
    where = (pair * HG + h) * splits + split
    tl.store(stats + where * 2, top, mask=h < HG)
    tl.store(stats + where * 2 + 1, total, mask=h < HG)
    target = partial + where[:, None] * (2 * C) + c[None, :]
    tl.store(target, acc_low, mask=h[:, None] < HG)
    tl.store(target + C, acc_high, mask=h[:, None] < HG)


@triton.jit
def decode_merge(partial, stats, out, splits, D: tl.constexpr, SH2: tl.constexpr, SP: tl.constexpr,
                 NG: tl.constexpr, C: tl.constexpr, S: tl.constexpr):
    head = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, S)
    c = tl.arange(0, C)
    top = tl.load(stats + (head * splits + i) * 2, mask=i < splits, other=float("-inf"))
    total = tl.load(stats + (head * splits + i) * 2 + 1, mask=i < splits, other=0.0)
    share = tl.exp(top - tl.max(top, axis=0))
    whole = tl.sum(total * share, axis=0)
    source = partial + (head * splits + i[:, None]) * (2 * C) + c[None, :]
    low = tl.load(source, mask=i[:, None] < splits, other=0.0)
    high = tl.load(source + C, mask=i[:, None] < splits, other=0.0)
    low = tl.sum(low * share[:, None], axis=0) / whole
    high = tl.sum(high * share[:, None], axis=0) / whole
    group = c // SP
    within = c % SP
    inside = (group < NG) & (within < SH2)
    target = out + head * D + 2 * (group * SH2 + within)
    tl.store(target, low.to(out.dtype.element_ty), mask=inside)
    tl.store(target + 1, high.to(out.dtype.element_ty), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, shared: int):
        super().__init__()
        self.shared = shared

    def forward(
        self, query: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor, offsets: torch.Tensor
    ) -> torch.Tensor:
        query, codes = query.contiguous(), codes.contiguous()
        scales, offsets = scales.contiguous(), offsets.contiguous()
        batch, heads, features = query.shape
        groups, length = codes.shape[2], codes.shape[3]
        each = heads // groups
        out = torch.empty_like(query)
        half = self.shared // 2
        padded = triton.next_power_of_2(half)
        sets = features // self.shared
        set_pad = triton.next_power_of_2(sets)
        while padded * set_pad < 16:
            padded *= 2
        columns = padded * set_pad
        block = 64
        pairs = batch * groups
        tiles = triton.cdiv(length, block)
        splits = max(1, min(tiles, 512 // pairs))
        per = triton.cdiv(tiles, splits) * block
        splits = triton.cdiv(length, per)
        partial = torch.empty((batch * heads, splits, 2, columns), device=query.device, dtype=torch.float32)
        stats = torch.empty((batch * heads, splits, 2), device=query.device, dtype=torch.float32)
        decode_split[(pairs * splits,)](
            query, codes, scales, offsets, partial, stats, length, per, splits, pairs, 1.0 / math.sqrt(features),
            HG=each, H=max(16, triton.next_power_of_2(each)), D=features, SH2=half, SP=padded, NG=sets, NP=set_pad,
            BN=block, num_warps=4, num_stages=3)
        decode_merge[(batch * heads,)](
            partial, stats, out, splits, D=features, SH2=half, SP=padded, NG=sets, C=columns,
            S=triton.next_power_of_2(splits), num_warps=4)
        return out
