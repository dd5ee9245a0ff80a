import tilelang
import tilelang.language as T
import torch
from torch import nn


@tilelang.jit(out_idx=[-1])
def swish_tiles(rows, features, height=8, width=1024, threads=256):
    @T.prim_func
    def swish(
        x: T.Tensor((rows, features), "float32"),
        beta: T.Tensor((features,), "float32"),
        out: T.Tensor((rows, features), "float32"),
    ):
        with T.Kernel(T.ceildiv(features, width), T.ceildiv(rows, height), threads=threads) as (bx, by):
            for i, j in T.Parallel(height, width):
                if by * height + i < rows and bx * width + j < features:
                    value = x[by * height + i, bx * width + j]
                    out[by * height + i, bx * width + j] = value / (1.0 + T.exp(-beta[bx * width + j] * value))

    return swish


class ModelNew(nn.Module):
    kernels = {}

    def __init__(self, features: int):
        super().__init__()
        self.beta = nn.Parameter(1.0 + 0.5 * torch.randn(features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = x.shape[-1]
        rows = x.reshape(-1, features).contiguous()
        key = tuple(rows.shape)
        if key not in self.kernels:
            self.kernels[key] = swish_tiles(rows.shape[0], features)
        return self.kernels[key](rows, self.beta).view(x.shape)
