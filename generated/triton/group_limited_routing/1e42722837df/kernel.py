import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def routing(logits, bias, out, tokens, E: tl.constexpr, G: tl.constexpr, GP: tl.constexpr, EG: tl.constexpr,
            EP: tl.constexpr, KEPT: tl.constexpr, CHOSEN: tl.constexpr, T: tl.constexpr):
    NONE: tl.constexpr = -2147483648
    t = (tl.program_id(0) * T + tl.arange(0, T)).to(tl.int64)[:, None, None]
    g = tl.arange(0, GP)[None, :, None]
    e = tl.arange(0, EP)[None, None, :]
    real = (g < G) & (e < EG)
    expert = g * EG + e
    mask = (t < tokens) & real
    x = tl.load(logits + t * E + expert, mask=mask, other=0.0)
    b = tl.load(bias + expert, mask=real, other=0.0)
    score = 1.0 / (1.0 + tl.exp(-x))
    ranked = tl.where(real, score + b, float("-inf"))

    first = tl.max(ranked, axis=2)
    wide = tl.broadcast_to(e, (T, GP, EP))
    place = tl.min(tl.where(ranked == first[:, :, None], wide, EP), axis=2)
    second = tl.max(tl.where(wide == place[:, :, None], float("-inf"), ranked), axis=2)
    best = first + second

    index = tl.arange(0, GP)
    left = best[:, :, None]
    right = best[:, None, :]
    better = (right > left) | ((right == left) & (index[None, None, :] < index[None, :, None]))
    rank = tl.sum(better.to(tl.int32), axis=2)
    kept = (rank < KEPT)[:, :, None]

    bits = ranked.to(tl.int32, bitcast=True)
    order = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    order = tl.where(kept & real, order, NONE)
    order = tl.reshape(order, (T, GP * EP))
    column = tl.broadcast_to(tl.arange(0, GP * EP)[None, :], (T, GP * EP))
    chosen = tl.zeros((T, GP * EP), dtype=tl.int32)
    for _ in tl.static_range(CHOSEN):
        largest = tl.max(order, axis=1)
        which = tl.min(tl.where(order == largest[:, None], column, GP * EP), axis=1)
        hit = column == which[:, None]
        chosen = tl.where(hit, 1, chosen)
        order = tl.where(hit, NONE, order)

    taken = tl.reshape(chosen, (T, GP, EP))
    weight = tl.where(taken != 0, score, 0.0)
    total = tl.sum(tl.sum(weight, axis=2), axis=1)
    weight = weight / total[:, None, None]
    tl.store(out + t * E + expert, weight, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, experts: int, groups: int, kept_groups: int, chosen: int):
        super().__init__()
        self.bias = nn.Parameter(0.1 * torch.randn(experts))
        self.groups, self.kept_groups, self.chosen = groups, kept_groups, chosen

    def forward(self, logits: torch.Tensor) -> torch.Tensor:
        logits = logits.contiguous()
        experts = logits.shape[-1]
        tokens = logits.numel() // experts
        out = torch.empty_like(logits)
        if tokens == 0:
            return out
        each = experts // self.groups
        block = 8
        routing[(triton.cdiv(tokens, block),)](
            logits, self.bias, out, tokens, E=experts, G=self.groups, GP=triton.next_power_of_2(self.groups),
            EG=each, EP=triton.next_power_of_2(each), KEPT=self.kept_groups, CHOSEN=self.chosen, T=block,
            num_warps=4)
        return out
