import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def loss_and_gradient(logits, labels, weights, loss, gradient, V, R: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    BLOCK: tl.constexpr = R * 8
    offsets = tl.arange(0, R)[:, None] * 8 + tl.arange(0, 8)[None, :]
    x_row = logits + row * V
    g_row = gradient + row * V
    label = tl.load(labels + row).to(tl.int32)
    weight = tl.load(weights + row)
    own = tl.load(x_row + label).to(tl.float32)

    m = tl.full((R,), -1.0e38, dtype=tl.float32)
    l = tl.zeros((R,), dtype=tl.float32)
    for start in range(0, V, BLOCK):
        columns = start + offsets
        x = tl.load(x_row + columns, mask=columns < V, other=-float("inf"), eviction_policy="evict_last")
        x = x.to(tl.float32)
        m_new = tl.maximum(m, tl.max(x, axis=1))
        l = l * tl.exp(m - m_new) + tl.sum(tl.exp(x - m_new[:, None]), axis=1)
        m = m_new
    top = tl.max(m, axis=0)
    normalizer = top + tl.log(tl.sum(l * tl.exp(m - top), axis=0))
    tl.store(loss + row, weight * (normalizer - own))

    tiles = (V + BLOCK - 1) // BLOCK
    for i in range(0, tiles):
        columns2 = (tiles - 1 - i) * BLOCK + offsets
        x2 = tl.load(x_row + columns2, mask=columns2 < V, other=0.0, eviction_policy="evict_first")
        p = tl.exp(x2.to(tl.float32) - normalizer)
        p = tl.where(columns2 == label, p - 1.0, p) * weight
        tl.store(g_row + columns2, p.to(gradient.dtype.element_ty), mask=columns2 < V, cache_modifier=".cs")


class ModelNew(nn.Module):
    def forward(
        self, logits: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        logits, labels, weights = logits.contiguous(), labels.contiguous(), weights.contiguous()
        tokens, vocabulary = logits.shape
        loss = torch.empty((tokens,), device=logits.device, dtype=torch.float32)
        gradient = torch.empty_like(logits)
        if logits.numel() == 0:
            return loss, gradient
        rows = min(2048, max(32, triton.next_power_of_2(triton.cdiv(vocabulary, 8))))
        warps = 32 if rows >= 1024 else max(1, rows // 32)
        loss_and_gradient[(tokens,)](
            logits, labels, weights, loss, gradient, vocabulary, R=rows, num_warps=warps
        )
        return loss, gradient
