import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def row_argmax(x, out, columns_total, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < columns_total
    v = tl.load(x + row * columns_total + columns, mask=inside, other=float("-inf"), eviction_policy="evict_first")
    best = tl.max(v, axis=0)
    # Padding has higher positions than any real element, so it never wins a tie.
    place = tl.min(tl.where(v == best, columns, BLOCK), axis=0)
    tl.store(out + row, place.to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        columns = x.shape[-1]
        out = torch.empty(x.shape[:-1], device=x.device, dtype=torch.int64)
        rows = out.numel()
        if rows:
            block = max(triton.next_power_of_2(columns), 128)
            warps = 4 if block <= 2048 else (8 if block <= 8192 else (16 if block <= 16384 else 32))
            row_argmax[(rows,)](x, out, columns, BLOCK=block, num_warps=warps)
        return out
