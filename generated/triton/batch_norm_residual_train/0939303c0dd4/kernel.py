import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def partial_moments(x, counts, means, squares, rows, channels, tiles, programs, BR: tl.constexpr, BC: tl.constexpr):
    p = tl.program_id(0)
    block = tl.program_id(1)
    columns = block * BC + tl.arange(0, BC)
    lanes = tl.arange(0, BR)
    offsets = lanes[:, None] * channels + columns[None, :]
    mean = tl.zeros((BR, BC), dtype=tl.float32)
    m2 = tl.zeros((BR, BC), dtype=tl.float32)
    count = tl.zeros((BR,), dtype=tl.float32)
    seen = 0.0
    for tile in range(p, tiles, programs):
        start = tile.to(tl.int64) * BR
        valid = lanes < rows - start
        inside = valid[:, None] & (columns[None, :] < channels)
        value = tl.load(x + start * channels + offsets, mask=inside, other=0.0)
        seen += 1.0
        inverse = 1.0 / seen
        delta = tl.where(inside, value - mean, 0.0)
        mean += delta * inverse
        m2 += delta * (value - mean)
        count += tl.where(valid, 1.0, 0.0)
    total = tl.sum(count, axis=0)
    middle = tl.sum(mean * count[:, None], axis=0) / total
    away = mean - middle[None, :]
    spread = tl.sum(m2 + count[:, None] * away * away, axis=0)
    index = p * channels + columns
    tl.store(means + index, middle, mask=columns < channels)
    tl.store(squares + index, spread, mask=columns < channels)
    if block == 0:
        tl.store(counts + p, total)


@triton.jit
def combine(
    counts, means, squares, weight, average, spread, calls, centre, factor, rows, channels, programs, momentum,
    BP: tl.constexpr, BC: tl.constexpr,
):
    columns = tl.program_id(0) * BC + tl.arange(0, BC)
    index = tl.arange(0, BP)
    valid = columns < channels
    inside = (index[:, None] < programs) & valid[None, :]
    count = tl.load(counts + index, mask=index < programs, other=0.0)
    mean = tl.load(means + index[:, None] * channels + columns[None, :], mask=inside, other=0.0)
    m2 = tl.load(squares + index[:, None] * channels + columns[None, :], mask=inside, other=0.0)
    total = tl.sum(count, axis=0)
    middle = tl.sum(mean * count[:, None], axis=0) / total
    away = mean - middle[None, :]
    variance = tl.sum(m2 + count[:, None] * away * away, axis=0) / total
    old_average = tl.load(average + columns, mask=valid, other=0.0)
    old_spread = tl.load(spread + columns, mask=valid, other=0.0)
    w = tl.load(weight + columns, mask=valid, other=0.0)
    tl.store(average + columns, old_average + momentum * (middle - old_average), mask=valid)
    tl.store(spread + columns, old_spread + momentum * (variance - old_spread), mask=valid)
    tl.store(centre + columns, middle, mask=valid)
    tl.store(factor + columns, w / tl.sqrt_rn(variance + 1e-5), mask=valid)
    if tl.program_id(0) == 0:
        tl.store(calls, tl.load(calls) + 1)


@triton.jit
def apply(x, residual, out, centre, factor, bias, rows, channels, tiles, BR: tl.constexpr, BC: tl.constexpr):
    tile = tiles - 1 - tl.program_id(0)
    columns = tl.program_id(1) * BC + tl.arange(0, BC)
    lanes = tl.arange(0, BR)
    start = tile.to(tl.int64) * BR
    valid = columns < channels
    inside = (lanes[:, None] < rows - start) & valid[None, :]
    offsets = start * channels + lanes[:, None] * channels + columns[None, :]
    value = tl.load(x + offsets, mask=inside, other=0.0)
    extra = tl.load(residual + offsets, mask=inside, other=0.0, eviction_policy="evict_first")
    c = tl.load(centre + columns, mask=valid, other=0.0)
    f = tl.load(factor + columns, mask=valid, other=0.0)
    b = tl.load(bias + columns, mask=valid, other=0.0)
    y = (value - c[None, :]) * f[None, :] + b[None, :] + extra
    y = tl.where(y < 0.0, 0.0, y)
    tl.store(out + offsets, y, mask=inside, eviction_policy="evict_first")


class ModelNew(nn.Module):
    def __init__(self, channels: int, momentum: float):
        super().__init__()
        self.momentum = momentum
        self.weight = nn.Parameter(1.0 + 0.3 * torch.randn(channels))
        self.bias = nn.Parameter(0.5 * torch.randn(channels))
        self.register_buffer("average", torch.zeros(channels))
        self.register_buffer("spread", torch.ones(channels))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        x, residual = x.contiguous(), residual.contiguous()
        rows, channels = x.shape
        out = torch.empty_like(x)
        bc = min(256, triton.next_power_of_2(channels))
        br = 4096 // bc
        blocks = triton.cdiv(channels, bc)
        tiles = triton.cdiv(rows, br)
        programs = min(512, tiles)
        counts = torch.empty(programs, device=x.device, dtype=torch.float32)
        means = torch.empty((programs, channels), device=x.device, dtype=torch.float32)
        squares = torch.empty((programs, channels), device=x.device, dtype=torch.float32)
        centre = torch.empty(channels, device=x.device, dtype=torch.float32)
        factor = torch.empty(channels, device=x.device, dtype=torch.float32)
        partial_moments[(programs, blocks)](
            x, counts, means, squares, rows, channels, tiles, programs, BR=br, BC=bc, num_warps=4
        )
        combine[(triton.cdiv(channels, 8),)](
            counts, means, squares, self.weight, self.average, self.spread, self.calls, centre, factor,
            rows, channels, programs, float(self.momentum),
            BP=triton.next_power_of_2(programs), BC=8, num_warps=8,
        )
        apply[(tiles, blocks)](
            x, residual, out, centre, factor, self.bias, rows, channels, tiles, BR=br, BC=bc, num_warps=4
        )
        return out
