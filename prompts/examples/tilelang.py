import tilelang
import tilelang.language as T
import torch
from torch import nn


@tilelang.jit(out_idx=[-1])
def clipped_distance(rows, features, clip, block=1024, threads=256):
    @T.prim_func
    def kernel(
        x: T.Tensor((rows, features), "float32"),
        y: T.Tensor((rows, features), "float32"),
        weight: T.Tensor((features,), "float32"),
        out: T.Tensor((rows,), "float32"),
    ):
        # One block a row; each thread keeps its own partial sums until the single reduction at the end.
        with T.Kernel(rows, threads=threads) as row:
            partial = T.alloc_fragment((block,), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.clear(partial)
            for step in T.serial(T.ceildiv(features, block)):
                for i in T.Parallel(block):
                    column = step * block + i
                    if column < features:
                        d = T.min(T.max(x[row, column] - y[row, column], -clip), clip)
                        partial[i] += d * d * weight[column]
            T.reduce_sum(partial, total, dim=0)
            out[row] = total[0]

    return kernel


class ModelNew(nn.Module):
    def __init__(self, features: int, clip: float):
        super().__init__()
        self.clip = clip
        self.weight = nn.Parameter(torch.rand(features) + 0.5)
        self.kernels = {}

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        features = x.shape[-1]
        x2, y2 = x.reshape(-1, features), y.reshape(-1, features)
        rows = x2.shape[0]
        # A kernel is specialised to its shape; it is compiled at the first call with that shape.
        if (rows, features) not in self.kernels:
            self.kernels[rows, features] = clipped_distance(rows, features, self.clip)
        return self.kernels[rows, features](x2.contiguous(), y2.contiguous(), self.weight).view(x.shape[:-1])
