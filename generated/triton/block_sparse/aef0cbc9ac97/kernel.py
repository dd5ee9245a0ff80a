import math

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def block_sparse_attention(query, key, value, chosen, lists, out, blocks, length, scale,
                           BLOCK: tl.constexpr, TILE: tl.constexpr, D: tl.constexpr, DP: tl.constexpr,
                           NB: tl.constexpr, EVEN: tl.constexpr, STAGES: tl.constexpr):
    row = tl.program_id(0)
    head = tl.program_id(1)
    line = (head * blocks + row).to(tl.int64) * blocks

    # The numbers of the chosen blocks of this row, compacted.
    number = tl.arange(0, NB)
    flag = tl.load(chosen + line + number, mask=number < blocks, other=0) != 0
    one = flag.to(tl.int32)
    place = tl.cumsum(one, 0) - one
    count = tl.sum(one, 0)
    tl.store(lists + line + place, number, mask=flag)

    base = head.to(tl.int64) * length * D
    rows = tl.arange(0, TILE)
    columns = tl.arange(0, DP)
    offsets = rows[:, None] * D + columns[None, :]
    inside = (rows[:, None] < BLOCK) & (columns[None, :] < D)
    start = base + row.to(tl.int64) * (BLOCK * D)
    if EVEN:
        q = tl.load(query + start + offsets)
    else:
        q = tl.load(query + start + offsets, mask=inside, other=0.0)

    top = tl.full((TILE,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((TILE,), dtype=tl.float32)
    acc = tl.zeros((TILE, DP), dtype=tl.float32)

    tl.debug_barrier()  # the list is read by threads other than those that wrote it

    for i in tl.range(0, count, num_stages=STAGES):
        j = tl.load(lists + line + i)
        from_ = base + j.to(tl.int64) * (BLOCK * D)
        if EVEN:
            k = tl.load(key + from_ + offsets)
        else:
            k = tl.load(key + from_ + offsets, mask=inside, other=0.0)
        scores = tl.dot(q, tl.trans(k)) * scale
        if not EVEN:
            scores = tl.where(rows[None, :] < BLOCK, scores, float("-inf"))
        high = tl.maximum(top, tl.max(scores, 1))
        shrink = tl.exp2(top - high)
        p = tl.exp2(scores - high[:, None])
        total = total * shrink + tl.sum(p, 1)
        acc = acc * shrink[:, None]
        if EVEN:
            v = tl.load(value + from_ + offsets)
        else:
            v = tl.load(value + from_ + offsets, mask=inside, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc)
        top = high

    acc = acc / total[:, None]
    if EVEN:
        tl.store(out + start + offsets, acc.to(out.dtype.element_ty))
    else:
        tl.store(out + start + offsets, acc.to(out.dtype.element_ty), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, block: int):
        super().__init__()
        self.block = block

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, chosen: torch.Tensor
    ) -> torch.Tensor:
        query, key, value, chosen = query.contiguous(), key.contiguous(), value.contiguous(), chosen.contiguous()
        length, features = query.shape[-2:]
        blocks = chosen.shape[-1]
        heads = query.numel() // (length * features) if query.numel() else 0
        out = torch.empty_like(query)
        if heads == 0:
            return out
        lists = torch.empty(chosen.shape, device=query.device, dtype=torch.int32)
        tile = max(16, triton.next_power_of_2(self.block))
        padded = max(16, triton.next_power_of_2(features))
        block_sparse_attention[(blocks, heads)](
            query, key, value, chosen.view(torch.uint8), lists, out, blocks, length,
            math.log2(math.e) / math.sqrt(features),
            BLOCK=self.block, TILE=tile, D=features, DP=padded, NB=triton.next_power_of_2(blocks),
            EVEN=(tile == self.block and padded == features), STAGES=2, num_warps=4 if tile <= 64 else 8,
        )
        return out
