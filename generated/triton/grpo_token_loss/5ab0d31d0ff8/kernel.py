import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def _absorb(m, s, a, b, c, d):
    top = tl.maximum(tl.maximum(a, b), tl.maximum(c, d))
    new = tl.maximum(m, top)
    s = s * tl.exp(m - new)
    s += (tl.exp(a - new) + tl.exp(b - new)) + (tl.exp(c - new) + tl.exp(d - new))
    return new, s


@triton.jit
def _load(base, columns, vocabulary, EVEN: tl.constexpr):
    if EVEN:
        x = tl.load(base + columns, eviction_policy="evict_first")
    else:
        x = tl.load(base + columns, mask=columns < vocabulary, other=float("-inf"))
    return x


@triton.jit
def token_loss(logits, reference, tokens, old, advantages, out, vocabulary, low, high, strength,
               BLOCK: tl.constexpr, EVEN: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x = logits + row * vocabulary
    y = reference + row * vocabulary
    lane = tl.arange(0, BLOCK)
    token = tl.load(tokens + row)
    chosen = tl.load(x + token).to(tl.float32)
    fixed_chosen = tl.load(y + token).to(tl.float32)
    before = tl.load(old + row)
    advantage = tl.load(advantages + row)

    m0 = tl.full((BLOCK,), -1.0e38, dtype=tl.float32)
    m1 = tl.full((BLOCK,), -1.0e38, dtype=tl.float32)
    s0 = tl.zeros((BLOCK,), dtype=tl.float32)
    s1 = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, vocabulary, 4 * BLOCK):
        c = start + lane
        xa = _load(x, c, vocabulary, EVEN)
        xb = _load(x, c + BLOCK, vocabulary, EVEN)
        xc = _load(x, c + 2 * BLOCK, vocabulary, EVEN)
        xd = _load(x, c + 3 * BLOCK, vocabulary, EVEN)
        ya = _load(y, c, vocabulary, EVEN)
        yb = _load(y, c + BLOCK, vocabulary, EVEN)
        yc = _load(y, c + 2 * BLOCK, vocabulary, EVEN)
        yd = _load(y, c + 3 * BLOCK, vocabulary, EVEN)
        m0, s0 = _absorb(m0, s0, xa.to(tl.float32), xb.to(tl.float32), xc.to(tl.float32), xd.to(tl.float32))
        m1, s1 = _absorb(m1, s1, ya.to(tl.float32), yb.to(tl.float32), yc.to(tl.float32), yd.to(tl.float32))

    t0 = tl.max(m0, 0)
    t1 = tl.max(m1, 0)
    z0 = tl.sum(s0 * tl.exp(m0 - t0), 0)
    z1 = tl.sum(s1 * tl.exp(m1 - t1), 0)
    new = chosen - (t0 + tl.log(z0))
    fixed = fixed_chosen - (t1 + tl.log(z1))
    ratio = tl.exp(new - before)
    clipped = tl.minimum(tl.maximum(ratio, low), high)
    gain = tl.minimum(ratio * advantage, clipped * advantage)
    gap = fixed - new
    tl.store(out + row, strength * (tl.exp(gap) - gap - 1.0) - gain)


class ModelNew(nn.Module):
    def __init__(self, clip: float, strength: float):
        super().__init__()
        self.clip, self.strength = clip, strength

    def forward(
        self,
        logits: torch.Tensor,
        reference: torch.Tensor,
        tokens: torch.Tensor,
        old: torch.Tensor,
        advantages: torch.Tensor,
    ) -> torch.Tensor:
        logits, reference, tokens = logits.contiguous(), reference.contiguous(), tokens.contiguous()
        old, advantages = old.contiguous(), advantages.contiguous()
        rows, vocabulary = logits.shape
        out = torch.empty((rows,), device=logits.device, dtype=torch.float32)
        if rows:
            block = 2048 if vocabulary >= 8192 else 256
            token_loss[(rows,)](logits, reference, tokens, old, advantages, out, vocabulary,
                                1 - self.clip, 1 + self.clip, self.strength,
                                BLOCK=block, EVEN=vocabulary % (4 * block) == 0,
                                num_warps=8 if block == 2048 else 4)
        return out
