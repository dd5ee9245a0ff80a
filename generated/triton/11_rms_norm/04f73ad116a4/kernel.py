import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def rms_norm_row(x, weight, out, features, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * features
    columns = tl.arange(0, BLOCK)
    inside = columns < features
    values = tl.load(x + row + columns, mask=inside, other=0.0)
    scale = tl.rsqrt(tl.sum(values * values, axis=0) / features + epsilon)
    w = tl.load(weight + columns, mask=inside, other=0.0)
    tl.store(out + row + columns, values * scale * w, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, features: int, epsilon: float):
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(1.0 + 0.3 * torch.randn(features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        features = x.shape[-1]
        out = torch.empty_like(x)
        if out.numel():
            block = triton.next_power_of_2(features)
            warps = min(16, max(4, block // 512))
            rms_norm_row[(x.numel() // features,)](
                x, self.weight, out, features, self.epsilon, BLOCK=block, num_warps=warps
            )
        return out
