import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def covariance_sums(points, sums, sets, count, POINTS: tl.constexpr, SETS: tl.constexpr):
    rows = tl.program_id(0) * SETS + tl.arange(0, SETS)
    places = tl.arange(0, POINTS)
    inside = (rows < sets)[:, None] & (places < count)[None, :]
    base = points + rows.to(tl.int64)[:, None] * (count * 3) + places[None, :] * 3
    x = tl.load(base, mask=inside, other=0.0)
    y = tl.load(base + 1, mask=inside, other=0.0)
    z = tl.load(base + 2, mask=inside, other=0.0)
    x = tl.where(inside, x - (tl.sum(x, axis=1) / count)[:, None], 0.0)
    y = tl.where(inside, y - (tl.sum(y, axis=1) / count)[:, None], 0.0)
    z = tl.where(inside, z - (tl.sum(z, axis=1) / count)[:, None], 0.0)
    known = rows < sets
    tl.store(sums + rows, tl.sum(x * x, axis=1) / count, mask=known)
    tl.store(sums + sets + rows, tl.sum(y * y, axis=1) / count, mask=known)
    tl.store(sums + 2 * sets + rows, tl.sum(z * z, axis=1) / count, mask=known)
    tl.store(sums + 3 * sets + rows, tl.sum(x * y, axis=1) / count, mask=known)
    tl.store(sums + 4 * sets + rows, tl.sum(x * z, axis=1) / count, mask=known)
    tl.store(sums + 5 * sets + rows, tl.sum(y * z, axis=1) / count, mask=known)


@triton.jit
def rotated(pp, qq, pq, rp, rq):
    # Zeroes the element pq of a symmetric matrix; r is the third index.
    divisor = tl.where(pq == 0.0, 1.0, 2.0 * pq)
    theta = (qq - pp) / divisor
    size = 1.0 / (tl.abs(theta) + tl.sqrt(theta * theta + 1.0))
    t = tl.where(theta < 0.0, -size, size)
    t = tl.where(pq == 0.0, 0.0, t)
    c = 1.0 / tl.sqrt(t * t + 1.0)
    s = t * c
    return pp - t * pq, qq + t * pq, c * rp - s * rq, s * rp + c * rq


@triton.jit
def eigenvalues(sums, out, sets, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    known = rows < sets
    xx = tl.load(sums + rows, mask=known, other=0.0)
    yy = tl.load(sums + sets + rows, mask=known, other=0.0)
    zz = tl.load(sums + 2 * sets + rows, mask=known, other=0.0)
    xy = tl.load(sums + 3 * sets + rows, mask=known, other=0.0)
    xz = tl.load(sums + 4 * sets + rows, mask=known, other=0.0)
    yz = tl.load(sums + 5 * sets + rows, mask=known, other=0.0)
    for _ in tl.static_range(5):
        xx, yy, xz, yz = rotated(xx, yy, xy, xz, yz)
        xx, zz, xy, yz = rotated(xx, zz, xz, tl.zeros_like(xy), yz)
        yy, zz, xy, xz = rotated(yy, zz, yz, xy, tl.zeros_like(xz))
        yz = tl.zeros_like(yz)
    low = tl.minimum(xx, yy)
    high = tl.maximum(xx, yy)
    least = tl.minimum(low, zz)
    most = tl.maximum(high, zz)
    middle = tl.maximum(low, tl.minimum(high, zz))
    place = out + rows.to(tl.int64) * 3
    tl.store(place, least, mask=known)
    tl.store(place + 1, middle, mask=known)
    tl.store(place + 2, most, mask=known)


class ModelNew(nn.Module):
    def forward(self, points: torch.Tensor) -> torch.Tensor:
        points = points.contiguous()
        sets, count, _ = points.shape
        out = torch.empty((sets, 3), device=points.device, dtype=points.dtype)
        if sets:
            sums = torch.empty((6, sets), device=points.device, dtype=points.dtype)
            width = triton.next_power_of_2(count)
            group = max(1, 1024 // width)
            covariance_sums[(triton.cdiv(sets, group),)](points, sums, sets, count, POINTS=width, SETS=group, num_warps=4)
            eigenvalues[(triton.cdiv(sets, 128),)](sums, out, sets, BLOCK=128, num_warps=4)
        return out
