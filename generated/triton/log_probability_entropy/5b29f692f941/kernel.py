import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def log_probability_entropy(logits, tokens, chosen, entropy, vocabulary, R: tl.constexpr, EVEN: tl.constexpr):
    LOG2E: tl.constexpr = 1.4426950408889634
    LOW: tl.constexpr = -1e30
    row = tl.program_id(0).to(tl.int64)
    base = logits + row * vocabulary
    token = tl.load(tokens + row)
    picked = tl.load(base + token).to(tl.float32)

    places = tl.arange(0, R)[:, None] * 8 + tl.arange(0, 8)[None, :]
    top = tl.full((R,), LOW, dtype=tl.float32)
    total = tl.zeros((R,), dtype=tl.float32)
    moment = tl.zeros((R,), dtype=tl.float32)
    for start in range(0, vocabulary, R * 32):
        p0 = start + places
        p1 = p0 + R * 8
        p2 = p0 + R * 16
        p3 = p0 + R * 24
        if EVEN:
            a = tl.load(base + p0, eviction_policy="evict_first")
            b = tl.load(base + p1, eviction_policy="evict_first")
            c = tl.load(base + p2, eviction_policy="evict_first")
            d = tl.load(base + p3, eviction_policy="evict_first")
        else:
            a = tl.load(base + p0, mask=p0 < vocabulary, other=LOW)
            b = tl.load(base + p1, mask=p1 < vocabulary, other=LOW)
            c = tl.load(base + p2, mask=p2 < vocabulary, other=LOW)
            d = tl.load(base + p3, mask=p3 < vocabulary, other=LOW)
        a = a.to(tl.float32)
        b = b.to(tl.float32)
        c = c.to(tl.float32)
        d = d.to(tl.float32)
        high = tl.max(tl.maximum(tl.maximum(a, b), tl.maximum(c, d)), 1)
        high = tl.maximum(high, top)
        drop = top - high
        shrink = tl.exp2(drop * LOG2E)
        a -= high[:, None]
        b -= high[:, None]
        c -= high[:, None]
        d -= high[:, None]
        ea = tl.exp2(a * LOG2E)
        eb = tl.exp2(b * LOG2E)
        ec = tl.exp2(c * LOG2E)
        ed = tl.exp2(d * LOG2E)
        moment = (moment + total * drop) * shrink + tl.sum(ea * a + eb * b + (ec * c + ed * d), 1)
        total = total * shrink + tl.sum((ea + eb) + (ec + ed), 1)
        top = high

    highest = tl.max(top, 0)
    drop = top - highest
    shrink = tl.exp2(drop * LOG2E)
    moment = tl.sum((moment + total * drop) * shrink, 0)
    total = tl.sum(total * shrink, 0)
    log = tl.log(total)
    tl.store(chosen + row, (picked - highest) - log)
    tl.store(entropy + row, log - moment / total)


class ModelNew(nn.Module):
    def forward(self, logits: torch.Tensor, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits, tokens = logits.contiguous(), tokens.contiguous()
        rows, vocabulary = logits.shape
        chosen = torch.empty(rows, device=logits.device, dtype=torch.float32)
        entropy = torch.empty(rows, device=logits.device, dtype=torch.float32)
        if rows:
            warps = 8 if vocabulary >= 8192 else 2
            r = 32 * warps
            log_probability_entropy[(rows,)](
                logits, tokens, chosen, entropy, vocabulary, R=r, EVEN=vocabulary % (r * 32) == 0, num_warps=warps)
        return chosen, entropy
