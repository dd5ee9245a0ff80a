import torch
import triton
import triton.language as tl
from torch import nn

STRIP = 16


@triton.jit
def swish_strip(x, beta, out, rows, features, STRIP: tl.constexpr, BLOCK: tl.constexpr):
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < features
    slope = tl.load(beta + columns, mask=inside, other=0.0)
    first = tl.program_id(1) * STRIP
    for step in tl.static_range(STRIP):
        row = (first + step).to(tl.int64)
        present = inside & (row < rows)
        values = tl.load(x + row * features + columns, mask=present, other=0.0)
        tl.store(out + row * features + columns, values / (1.0 + tl.exp(-slope * values)), mask=present)


class ModelNew(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.beta = nn.Parameter(1.0 + 0.5 * torch.randn(features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        features = x.shape[-1]
        out = torch.empty_like(x)
        if out.numel():
            rows = x.numel() // features
            grid = (triton.cdiv(features, 1024), triton.cdiv(rows, STRIP))
            swish_strip[grid](x, self.beta, out, rows, features, STRIP=STRIP, BLOCK=1024, num_warps=4)
        return out
