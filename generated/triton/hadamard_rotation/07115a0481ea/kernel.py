import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def _lane_sign(zero, MASK: tl.constexpr):
    # +1 where the lane's bit is clear, -1 where it is set.
    if MASK == 1:
        s = tl.inline_asm_elementwise(
            "{ .reg .u32 l; .reg .pred p; mov.u32 l, %laneid; and.b32 l, l, 1; setp.eq.u32 p, l, 0; selp.f32 $0, 0f3F800000, 0fBF800000, p; }",
            "=f,f", [zero], dtype=tl.float32, is_pure=True, pack=1)
    elif MASK == 2:
        s = tl.inline_asm_elementwise(
            "{ .reg .u32 l; .reg .pred p; mov.u32 l, %laneid; and.b32 l, l, 2; setp.eq.u32 p, l, 0; selp.f32 $0, 0f3F800000, 0fBF800000, p; }",
            "=f,f", [zero], dtype=tl.float32, is_pure=True, pack=1)
    elif MASK == 4:
        s = tl.inline_asm_elementwise(
            "{ .reg .u32 l; .reg .pred p; mov.u32 l, %laneid; and.b32 l, l, 4; setp.eq.u32 p, l, 0; selp.f32 $0, 0f3F800000, 0fBF800000, p; }",
            "=f,f", [zero], dtype=tl.float32, is_pure=True, pack=1)
    elif MASK == 8:
        s = tl.inline_asm_elementwise(
            "{ .reg .u32 l; .reg .pred p; mov.u32 l, %laneid; and.b32 l, l, 8; setp.eq.u32 p, l, 0; selp.f32 $0, 0f3F800000, 0fBF800000, p; }",
            "=f,f", [zero], dtype=tl.float32, is_pure=True, pack=1)
    else:
        s = tl.inline_asm_elementwise(
            "{ .reg .u32 l; .reg .pred p; mov.u32 l, %laneid; and.b32 l, l, 16; setp.eq.u32 p, l, 0; selp.f32 $0, 0f3F800000, 0fBF800000, p; }",
            "=f,f", [zero], dtype=tl.float32, is_pure=True, pack=1)
    return s


@triton.jit
def _within(x, s1, s2, s4, s8, s16):
    # 128-point transform inside one warp: four registers of a lane, then the five lane bits.
    x0 = tl.inline_asm_elementwise(
        "{ .reg .f32 a, b, c, d; add.rn.f32 a, $4, $5; sub.rn.f32 b, $4, $5; add.rn.f32 c, $6, $7; sub.rn.f32 d, $6, $7; "
        "add.rn.f32 $0, a, c; add.rn.f32 $1, b, d; sub.rn.f32 $2, a, c; sub.rn.f32 $3, b, d; }",
        "=f,=f,=f,=f,f,f,f,f", [x], dtype=tl.float32, is_pure=True, pack=4)
    x1 = tl.inline_asm_elementwise(
        "{ .reg .f32 t; shfl.sync.bfly.b32 t, $1, 1, 0x1f, 0xffffffff; fma.rn.f32 $0, $1, $2, t; }",
        "=f,f,f", [x0, s1], dtype=tl.float32, is_pure=True, pack=1)
    x2 = tl.inline_asm_elementwise(
        "{ .reg .f32 t; shfl.sync.bfly.b32 t, $1, 2, 0x1f, 0xffffffff; fma.rn.f32 $0, $1, $2, t; }",
        "=f,f,f", [x1, s2], dtype=tl.float32, is_pure=True, pack=1)
    x3 = tl.inline_asm_elementwise(
        "{ .reg .f32 t; shfl.sync.bfly.b32 t, $1, 4, 0x1f, 0xffffffff; fma.rn.f32 $0, $1, $2, t; }",
        "=f,f,f", [x2, s4], dtype=tl.float32, is_pure=True, pack=1)
    x4 = tl.inline_asm_elementwise(
        "{ .reg .f32 t; shfl.sync.bfly.b32 t, $1, 8, 0x1f, 0xffffffff; fma.rn.f32 $0, $1, $2, t; }",
        "=f,f,f", [x3, s8], dtype=tl.float32, is_pure=True, pack=1)
    x5 = tl.inline_asm_elementwise(
        "{ .reg .f32 t; shfl.sync.bfly.b32 t, $1, 16, 0x1f, 0xffffffff; fma.rn.f32 $0, $1, $2, t; }",
        "=f,f,f", [x4, s16], dtype=tl.float32, is_pure=True, pack=1)
    return x5


@triton.jit
def _h4(a, b, c, d):
    e = a + c
    f = b + d
    g = a - c
    h = b - d
    return e + f, e - f, g + h, g - h


@triton.jit
def _h8(a0, a1, a2, a3, a4, a5, a6, a7):
    b0, b1, b2, b3 = _h4(a0 + a4, a1 + a5, a2 + a6, a3 + a7)
    b4, b5, b6, b7 = _h4(a0 - a4, a1 - a5, a2 - a6, a3 - a7)
    return b0, b1, b2, b3, b4, b5, b6, b7


@triton.jit
def _h16(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15):
    b0, b1, b2, b3, b4, b5, b6, b7 = _h8(a0 + a8, a1 + a9, a2 + a10, a3 + a11, a4 + a12, a5 + a13, a6 + a14, a7 + a15)
    b8, b9, b10, b11, b12, b13, b14, b15 = _h8(a0 - a8, a1 - a9, a2 - a10, a3 - a11, a4 - a12, a5 - a13, a6 - a14, a7 - a15)
    return b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11, b12, b13, b14, b15


@triton.jit
def _top4(a, b, c, d):
    return tl.maximum(tl.maximum(tl.abs(a), tl.abs(b)), tl.maximum(tl.abs(c), tl.abs(d)))


@triton.jit
def _put4(p, a, b, c, d, inverse):
    tl.store(p, a * inverse)
    tl.store(p + 128, b * inverse)
    tl.store(p + 256, c * inverse)
    tl.store(p + 384, d * inverse)


@triton.jit
def rotate_4096(x, signs, out, scales):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, 128)
    p = x + row * 4096 + lane
    g = signs + lane
    zero = tl.zeros((128,), dtype=tl.float32)
    s1 = _lane_sign(zero, 1)
    s2 = _lane_sign(zero, 2)
    s4 = _lane_sign(zero, 4)
    s8 = _lane_sign(zero, 8)
    s16 = _lane_sign(zero, 16)
    a0 = tl.load(p)
    a1 = tl.load(p + 128)
    a2 = tl.load(p + 256)
    a3 = tl.load(p + 384)
    a4 = tl.load(p + 512)
    a5 = tl.load(p + 640)
    a6 = tl.load(p + 768)
    a7 = tl.load(p + 896)
    a8 = tl.load(p + 1024)
    a9 = tl.load(p + 1152)
    a10 = tl.load(p + 1280)
    a11 = tl.load(p + 1408)
    a12 = tl.load(p + 1536)
    a13 = tl.load(p + 1664)
    a14 = tl.load(p + 1792)
    a15 = tl.load(p + 1920)
    a16 = tl.load(p + 2048)
    a17 = tl.load(p + 2176)
    a18 = tl.load(p + 2304)
    a19 = tl.load(p + 2432)
    a20 = tl.load(p + 2560)
    a21 = tl.load(p + 2688)
    a22 = tl.load(p + 2816)
    a23 = tl.load(p + 2944)
    a24 = tl.load(p + 3072)
    a25 = tl.load(p + 3200)
    a26 = tl.load(p + 3328)
    a27 = tl.load(p + 3456)
    a28 = tl.load(p + 3584)
    a29 = tl.load(p + 3712)
    a30 = tl.load(p + 3840)
    a31 = tl.load(p + 3968)
    a0 = _within(a0 * tl.load(g), s1, s2, s4, s8, s16)
    a1 = _within(a1 * tl.load(g + 128), s1, s2, s4, s8, s16)
    a2 = _within(a2 * tl.load(g + 256), s1, s2, s4, s8, s16)
    a3 = _within(a3 * tl.load(g + 384), s1, s2, s4, s8, s16)
    a4 = _within(a4 * tl.load(g + 512), s1, s2, s4, s8, s16)
    a5 = _within(a5 * tl.load(g + 640), s1, s2, s4, s8, s16)
    a6 = _within(a6 * tl.load(g + 768), s1, s2, s4, s8, s16)
    a7 = _within(a7 * tl.load(g + 896), s1, s2, s4, s8, s16)
    a8 = _within(a8 * tl.load(g + 1024), s1, s2, s4, s8, s16)
    a9 = _within(a9 * tl.load(g + 1152), s1, s2, s4, s8, s16)
    a10 = _within(a10 * tl.load(g + 1280), s1, s2, s4, s8, s16)
    a11 = _within(a11 * tl.load(g + 1408), s1, s2, s4, s8, s16)
    a12 = _within(a12 * tl.load(g + 1536), s1, s2, s4, s8, s16)
    a13 = _within(a13 * tl.load(g + 1664), s1, s2, s4, s8, s16)
    a14 = _within(a14 * tl.load(g + 1792), s1, s2, s4, s8, s16)
    a15 = _within(a15 * tl.load(g + 1920), s1, s2, s4, s8, s16)
    a16 = _within(a16 * tl.load(g + 2048), s1, s2, s4, s8, s16)
    a17 = _within(a17 * tl.load(g + 2176), s1, s2, s4, s8, s16)
    a18 = _within(a18 * tl.load(g + 2304), s1, s2, s4, s8, s16)
    a19 = _within(a19 * tl.load(g + 2432), s1, s2, s4, s8, s16)
    a20 = _within(a20 * tl.load(g + 2560), s1, s2, s4, s8, s16)
    a21 = _within(a21 * tl.load(g + 2688), s1, s2, s4, s8, s16)
    a22 = _within(a22 * tl.load(g + 2816), s1, s2, s4, s8, s16)
    a23 = _within(a23 * tl.load(g + 2944), s1, s2, s4, s8, s16)
    a24 = _within(a24 * tl.load(g + 3072), s1, s2, s4, s8, s16)
    a25 = _within(a25 * tl.load(g + 3200), s1, s2, s4, s8, s16)
    a26 = _within(a26 * tl.load(g + 3328), s1, s2, s4, s8, s16)
    a27 = _within(a27 * tl.load(g + 3456), s1, s2, s4, s8, s16)
    a28 = _within(a28 * tl.load(g + 3584), s1, s2, s4, s8, s16)
    a29 = _within(a29 * tl.load(g + 3712), s1, s2, s4, s8, s16)
    a30 = _within(a30 * tl.load(g + 3840), s1, s2, s4, s8, s16)
    a31 = _within(a31 * tl.load(g + 3968), s1, s2, s4, s8, s16)
    b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11, b12, b13, b14, b15 = _h16(
        a0 + a16, a1 + a17, a2 + a18, a3 + a19, a4 + a20, a5 + a21, a6 + a22, a7 + a23,
        a8 + a24, a9 + a25, a10 + a26, a11 + a27, a12 + a28, a13 + a29, a14 + a30, a15 + a31)
    c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13, c14, c15 = _h16(
        a0 - a16, a1 - a17, a2 - a18, a3 - a19, a4 - a20, a5 - a21, a6 - a22, a7 - a23,
        a8 - a24, a9 - a25, a10 - a26, a11 - a27, a12 - a28, a13 - a29, a14 - a30, a15 - a31)
    t0 = tl.maximum(_top4(b0, b1, b2, b3), _top4(b4, b5, b6, b7))
    t1 = tl.maximum(_top4(b8, b9, b10, b11), _top4(b12, b13, b14, b15))
    t2 = tl.maximum(_top4(c0, c1, c2, c3), _top4(c4, c5, c6, c7))
    t3 = tl.maximum(_top4(c8, c9, c10, c11), _top4(c12, c13, c14, c15))
    top = tl.max(tl.maximum(tl.maximum(t0, t1), tl.maximum(t2, t3)), 0)
    # Division by sqrt(4096) = 64 is exact and cancels in the quotient.
    tl.store(scales + row, top * 0.015625)
    inverse = 1.0 / top
    o = out + row * 4096 + lane
    _put4(o, b0, b1, b2, b3, inverse)
    _put4(o + 512, b4, b5, b6, b7, inverse)
    _put4(o + 1024, b8, b9, b10, b11, inverse)
    _put4(o + 1536, b12, b13, b14, b15, inverse)
    _put4(o + 2048, c0, c1, c2, c3, inverse)
    _put4(o + 2560, c4, c5, c6, c7, inverse)
    _put4(o + 3072, c8, c9, c10, c11, inverse)
    _put4(o + 3584, c12, c13, c14, c15, inverse)


@triton.jit
def rotate_any(x, signs, out, scales, features, root, BLOCK: tl.constexpr, STEP: tl.constexpr):
    # The number of features is a power of two; sign of entry (i, j) is the parity of i & j.
    row = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, BLOCK)
    k = tl.arange(0, STEP)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, features, STEP):
        i = start + k
        a = tl.load(x + row * features + i, mask=i < features, other=0.0)
        a = a * tl.load(signs + i, mask=i < features, other=0.0)
        bits = i[:, None] & j[None, :]
        bits = bits ^ (bits >> 16)
        bits = bits ^ (bits >> 8)
        bits = bits ^ (bits >> 4)
        bits = bits ^ (bits >> 2)
        bits = bits ^ (bits >> 1)
        acc += tl.sum(tl.where((bits & 1) == 0, a[:, None], -a[:, None]), 0)
    inside = j < features
    turned = tl.where(inside, acc / root, 0.0)
    scale = tl.max(tl.abs(turned), 0)
    tl.store(scales + row, scale)
    tl.store(out + row * features + j, turned / scale, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.signs = nn.Parameter(torch.sign(torch.randn(features)) * (0.9 + 0.2 * torch.rand(features)))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = x.contiguous()
        signs = self.signs.detach().contiguous()
        features = x.shape[-1]
        out = torch.empty_like(x)
        scales = torch.empty(x.shape[:-1], device=x.device, dtype=x.dtype)
        rows = scales.numel()
        if rows == 0:
            return out, scales
        if features == 4096:
            rotate_4096[(rows,)](x, signs, out, scales, num_warps=1)
        else:
            block = triton.next_power_of_2(features)
            rotate_any[(rows,)](x, signs, out, scales, features, features**0.5,
                                BLOCK=block, STEP=min(16, block), num_warps=4)
        return out, scales
