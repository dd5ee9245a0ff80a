import tilelang
import tilelang.language as T
import torch
from torch import nn

THREADS = 256


@tilelang.jit(out_idx=[-1])
def rms_norm_rows(rows, features, width, epsilon, threads=THREADS):
    @T.prim_func
    def rms_norm(
        x: T.Tensor((rows, features), "float32"),
        weight: T.Tensor((features,), "float32"),
        out: T.Tensor((rows, features), "float32"),
    ):
        with T.Kernel(rows, threads=threads) as row:
            held = T.alloc_fragment((width,), "float32")
            squares = T.alloc_fragment((width,), "float32")
            total = T.alloc_fragment((1,), "float32")
            for i in T.Parallel(width):
                held[i] = T.if_then_else(i < features, x[row, i], 0.0)
            for i in T.Parallel(width):
                squares[i] = held[i] * held[i]
            T.reduce_sum(squares, total, dim=0)
            for i in T.Parallel(width):
                if i < features:
                    out[row, i] = held[i] * T.rsqrt(total[0] / features + epsilon) * weight[i]

    return rms_norm


class ModelNew(nn.Module):
    kernels = {}

    def __init__(self, features: int, epsilon: float):
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(1.0 + 0.3 * torch.randn(features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = x.shape[-1]
        rows = x.reshape(-1, features).contiguous()
        key = (rows.shape[0], features, self.epsilon)
        if key not in self.kernels:
            width = max(THREADS, 1 << (features - 1).bit_length())
            self.kernels[key] = rms_norm_rows(rows.shape[0], features, width, self.epsilon)
        return self.kernels[key](rows, self.weight).view(x.shape)
