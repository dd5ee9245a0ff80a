import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def rms_rows(x, scale, out, features, chunks, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    source = x + row * features
    target = out + row * features
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for i in range(0, chunks):
        columns = i * BLOCK + lanes
        a = tl.load(source + columns, mask=columns < features, other=0.0)
        total += a * a
    mean = tl.sum(total, axis=0) / features
    factor = 1.0 / tl.sqrt(mean + 1e-6)
    for i in range(0, chunks):
        columns = (chunks - 1 - i) * BLOCK + lanes
        inside = columns < features
        a = tl.load(source + columns, mask=inside, other=0.0)
        s = tl.load(scale + columns, mask=inside, other=0.0, cache_modifier=".cg")
        tl.store(target + columns, a * factor * s, mask=inside, cache_modifier=".cs")


class ModelNew(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.scale = nn.Parameter(0.5 + torch.rand(features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        features = x.shape[-1]
        out = torch.empty_like(x)
        if x.numel() == 0:
            return out
        rows = x.numel() // features
        block = min(16384, max(1024, triton.next_power_of_2(features)))
        warps = min(32, max(4, block // 512))
        rms_rows[(rows,)](x, self.scale, out, features, triton.cdiv(features, block), BLOCK=block, num_warps=warps)
        return out
