import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def softmax_row(logits, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    places = tl.arange(0, BLOCK)
    inside = places < columns
    values = tl.load(logits + row + places, mask=inside, other=float("-inf"))
    raised = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row + places, raised / tl.sum(raised, axis=0), mask=inside)


class ModelNew(nn.Module):
    def forward(self, logits: torch.Tensor) -> torch.Tensor:
        logits = logits.contiguous()
        columns = logits.shape[-1]
        out = torch.empty_like(logits)
        if out.numel():
            block = triton.next_power_of_2(columns)
            warps = min(16, max(4, block // 512))
            softmax_row[(logits.numel() // columns,)](logits, out, columns, BLOCK=block, num_warps=warps)
        return out
