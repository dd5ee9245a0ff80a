import torch
import triton
import triton.language as tl
from torch import nn
from triton.language.extra import libdevice


@triton.jit
def norm_rotate(left, right, cosine, sine, scale_left, scale_right, FEATURES: tl.constexpr):
    left = left.to(tl.float32)
    right = right.to(tl.float32)
    mean = tl.sum(left * left + right * right, 1) / FEATURES
    factor = tl.rsqrt(mean + 1e-6)[:, None]
    left = left * factor * scale_left[None, :]
    right = right * factor * scale_right[None, :]
    return left * cosine[None, :] - right * sine[None, :], right * cosine[None, :] + left * sine[None, :]


@triton.jit
def query_key_value(projected, angles, scales, query, key, value, HEADS: tl.constexpr, GROUPS: tl.constexpr,
                    FEATURES: tl.constexpr, HALF: tl.constexpr, HP: tl.constexpr, QB: tl.constexpr,
                    KB: tl.constexpr, VB: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    base = projected + token * ((HEADS + 2 * GROUPS) * FEATURES)
    columns = tl.arange(0, HP)
    column_ok = columns < HALF

    key_rows = tl.arange(0, KB)
    key_offsets = key_rows[:, None] * FEATURES + columns[None, :]
    key_ok = (key_rows[:, None] < GROUPS) & column_ok[None, :]
    key_left = tl.load(base + HEADS * FEATURES + key_offsets, mask=key_ok, other=0.0)
    key_right = tl.load(base + HEADS * FEATURES + HALF + key_offsets, mask=key_ok, other=0.0)
    flat = tl.arange(0, VB)
    value_ok = flat < GROUPS * FEATURES
    plain = tl.load(base + (HEADS + GROUPS) * FEATURES + flat, mask=value_ok, other=0.0)
    angle = tl.load(angles + token * HALF + columns, mask=column_ok, other=0.0)
    query_left_scale = tl.load(scales + columns, mask=column_ok, other=0.0)
    query_right_scale = tl.load(scales + HALF + columns, mask=column_ok, other=0.0)
    key_left_scale = tl.load(scales + FEATURES + columns, mask=column_ok, other=0.0)
    key_right_scale = tl.load(scales + FEATURES + HALF + columns, mask=column_ok, other=0.0)

    query_rows = tl.arange(0, QB)
    query_offsets = query_rows[:, None] * FEATURES + columns[None, :]
    query_ok = (query_rows[:, None] < HEADS) & column_ok[None, :]
    query_left = tl.load(base + query_offsets, mask=query_ok, other=0.0)
    query_right = tl.load(base + HALF + query_offsets, mask=query_ok, other=0.0)

    cosine = libdevice.cos(angle)
    sine = libdevice.sin(angle)

    tl.store(value + token * (GROUPS * FEATURES) + flat, plain, mask=value_ok)
    first, second = norm_rotate(key_left, key_right, cosine, sine, key_left_scale, key_right_scale, FEATURES)
    key_to = key + token * (GROUPS * FEATURES) + key_offsets
    tl.store(key_to, first.to(key.dtype.element_ty), mask=key_ok)
    tl.store(key_to + HALF, second.to(key.dtype.element_ty), mask=key_ok)

    query_to = query + token * (HEADS * FEATURES)
    first, second = norm_rotate(query_left, query_right, cosine, sine, query_left_scale, query_right_scale, FEATURES)
    tl.store(query_to + query_offsets, first.to(query.dtype.element_ty), mask=query_ok)
    tl.store(query_to + HALF + query_offsets, second.to(query.dtype.element_ty), mask=query_ok)
    for start in tl.static_range(QB, HEADS, QB):
        rows = start + query_rows
        offsets = rows[:, None] * FEATURES + columns[None, :]
        ok = (rows[:, None] < HEADS) & column_ok[None, :]
        left = tl.load(base + offsets, mask=ok, other=0.0)
        right = tl.load(base + HALF + offsets, mask=ok, other=0.0)
        first, second = norm_rotate(left, right, cosine, sine, query_left_scale, query_right_scale, FEATURES)
        tl.store(query_to + offsets, first.to(query.dtype.element_ty), mask=ok)
        tl.store(query_to + HALF + offsets, second.to(query.dtype.element_ty), mask=ok)


class ModelNew(nn.Module):
    def __init__(self, heads: int, groups: int, features: int):
        super().__init__()
        self.scales = nn.Parameter(0.5 + torch.rand(2, features))
        self.heads, self.groups = heads, groups

    def forward(
        self, projected: torch.Tensor, angles: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        projected, angles = projected.contiguous(), angles.contiguous()
        tokens = projected.shape[0]
        heads, groups = self.heads, self.groups
        features = projected.shape[1] // (heads + 2 * groups)
        options = {"device": projected.device, "dtype": projected.dtype}
        query = torch.empty((tokens, heads, features), **options)
        key = torch.empty((tokens, groups, features), **options)
        value = torch.empty((tokens, groups, features), **options)
        if tokens:
            half = features // 2
            query_key_value[(tokens,)](
                projected, angles, self.scales.detach(), query, key, value, HEADS=heads, GROUPS=groups,
                FEATURES=features, HALF=half, HP=triton.next_power_of_2(half),
                QB=min(16, triton.next_power_of_2(heads)), KB=triton.next_power_of_2(groups),
                VB=triton.next_power_of_2(groups * features), num_warps=1)
        return query, key, value
