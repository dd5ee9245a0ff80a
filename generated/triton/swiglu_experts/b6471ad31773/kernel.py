import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def route(experts, lists, counts, pairs, CHUNK: tl.constexpr):
    expert = tl.program_id(0)
    line = lists + expert.to(tl.int64) * pairs
    number = tl.arange(0, CHUNK)
    count = 0
    for start in range(0, pairs, CHUNK):
        place = start + number
        chosen = tl.load(experts + place, mask=place < pairs, other=-1).to(tl.int32)
        match = chosen == expert
        one = match.to(tl.int32)
        before = tl.cumsum(one, 0) - one
        tl.store(line + count + before, place, mask=match)
        count += tl.sum(one, 0)
    tl.store(counts + expert, count)


@triton.jit
def up_product(x, up, lists, counts, hidden, pairs, chosen, features, width, row_programs, column_tiles,
               BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, EVEN_K: tl.constexpr):
    pid = tl.program_id(0)
    row_program = pid % row_programs
    column_tile = (pid // row_programs) % column_tiles
    expert = pid // (row_programs * column_tiles)
    count = tl.load(counts + expert)
    line = lists + expert.to(tl.int64) * pairs
    matrix = up + expert.to(tl.int64) * features * (2 * width)
    columns = column_tile * BN + tl.arange(0, BN)
    column_ok = columns < width
    steps = tl.arange(0, BK)
    for first in range(row_program * BM, count, row_programs * BM):
        rows = first + tl.arange(0, BM)
        row_ok = rows < count
        pair = tl.load(line + rows, mask=row_ok, other=0)
        a = x + (pair // chosen).to(tl.int64)[:, None] * features + steps[None, :]
        b = matrix + steps[:, None] * (2 * width) + columns[None, :]
        gate = tl.zeros((BM, BN), dtype=tl.float32)
        value = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, features, BK):
            if EVEN_K:
                left = tl.load(a, mask=row_ok[:, None], other=0.0)
                right = tl.load(b, mask=column_ok[None, :], other=0.0)
                other = tl.load(b + width, mask=column_ok[None, :], other=0.0)
            else:
                step_ok = steps < features - k
                left = tl.load(a, mask=row_ok[:, None] & step_ok[None, :], other=0.0)
                right = tl.load(b, mask=step_ok[:, None] & column_ok[None, :], other=0.0)
                other = tl.load(b + width, mask=step_ok[:, None] & column_ok[None, :], other=0.0)
            gate = tl.dot(left, right, gate)
            value = tl.dot(left, other, value)
            a += BK
            b += BK * (2 * width)
        result = gate / (1.0 + tl.exp(-gate)) * value
        tl.store(hidden + pair.to(tl.int64)[:, None] * width + columns[None, :], result.to(hidden.dtype.element_ty),
                 mask=row_ok[:, None] & column_ok[None, :])


@triton.jit
def down_product(hidden, down, lists, counts, out, pairs, features, width, row_programs, column_tiles,
                 BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, EVEN_K: tl.constexpr):
    pid = tl.program_id(0)
    row_program = pid % row_programs
    column_tile = (pid // row_programs) % column_tiles
    expert = pid // (row_programs * column_tiles)
    count = tl.load(counts + expert)
    line = lists + expert.to(tl.int64) * pairs
    matrix = down + expert.to(tl.int64) * width * features
    columns = column_tile * BN + tl.arange(0, BN)
    column_ok = columns < features
    steps = tl.arange(0, BK)
    for first in range(row_program * BM, count, row_programs * BM):
        rows = first + tl.arange(0, BM)
        row_ok = rows < count
        pair = tl.load(line + rows, mask=row_ok, other=0).to(tl.int64)
        a = hidden + pair[:, None] * width + steps[None, :]
        b = matrix + steps[:, None] * features + columns[None, :]
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, width, BK):
            if EVEN_K:
                left = tl.load(a, mask=row_ok[:, None], other=0.0)
                right = tl.load(b, mask=column_ok[None, :], other=0.0)
            else:
                step_ok = steps < width - k
                left = tl.load(a, mask=row_ok[:, None] & step_ok[None, :], other=0.0)
                right = tl.load(b, mask=step_ok[:, None] & column_ok[None, :], other=0.0)
            acc = tl.dot(left, right, acc)
            a += BK
            b += BK * features
        tl.store(out + pair[:, None] * features + columns[None, :], acc.to(out.dtype.element_ty),
                 mask=row_ok[:, None] & column_ok[None, :])


@triton.jit
def weighted_sum(parts, weights, out, features, CHOSEN: tl.constexpr, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < features
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for i in tl.static_range(CHOSEN):
        weight = tl.load(weights + token * CHOSEN + i).to(tl.float32)
        part = tl.load(parts + (token * CHOSEN + i) * features + columns, mask=inside, other=0.0)
        total += weight * part.to(tl.float32)
    tl.store(out + token * features + columns, total.to(out.dtype.element_ty), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, experts: int, features: int, hidden: int):
        super().__init__()
        up = torch.randn(experts, features, 2 * hidden) / features**0.5
        down = torch.randn(experts, hidden, features) / hidden**0.5
        self.up, self.down = nn.Parameter(up.bfloat16()), nn.Parameter(down.bfloat16())

    def forward(self, x: torch.Tensor, experts: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        x, experts, weights = x.contiguous(), experts.contiguous(), weights.contiguous()
        up, down = self.up.detach(), self.down.detach()
        tokens, features = x.shape
        chosen = experts.shape[1]
        number, width = down.shape[0], down.shape[1]
        pairs = tokens * chosen
        out = torch.empty((tokens, features), device=x.device, dtype=weights.dtype)
        if out.numel() == 0:
            return out
        lists = torch.empty((number, pairs), device=x.device, dtype=torch.int32)
        counts = torch.empty(number, device=x.device, dtype=torch.int32)
        hidden = torch.empty((pairs, width), device=x.device, dtype=x.dtype)
        parts = torch.empty((pairs, features), device=x.device, dtype=x.dtype)

        chunk = min(4096, max(128, triton.next_power_of_2(pairs)))
        route[(number,)](experts, lists, counts, pairs, CHUNK=chunk, num_warps=8)

        bm, bk = 64, 64
        # Enough programs for twice the mean number of rows; those that find more go round again.
        row_programs = max(1, triton.cdiv(2 * pairs, number * bm))
        bn = 64
        tiles = triton.cdiv(width, bn)
        up_product[(number * tiles * row_programs,)](
            x, up, lists, counts, hidden, pairs, chosen, features, width, row_programs, tiles,
            BM=bm, BN=bn, BK=bk, EVEN_K=features % bk == 0, num_warps=4, num_stages=4)
        bn = 128
        tiles = triton.cdiv(features, bn)
        down_product[(number * tiles * row_programs,)](
            hidden, down, lists, counts, parts, pairs, features, width, row_programs, tiles,
            BM=bm, BN=bn, BK=bk, EVEN_K=width % bk == 0, num_warps=4, num_stages=4)
        block = min(1024, triton.next_power_of_2(features))
        weighted_sum[(tokens, triton.cdiv(features, block))](
            parts, weights, out, features, CHOSEN=chosen, BLOCK=block, num_warps=4)
        return out
