import tilelang
import tilelang.language as T
import torch
from torch import nn

CONFIG = {tilelang.PassConfigKey.TL_DISABLE_SAFE_MEMORY_ACCESS: True}


@tilelang.jit(out_idx=[-1], pass_configs=CONFIG)
def range_starts(edges, nodes):
    threads = 256

    @T.prim_func
    def kernel(
        targets: T.Tensor((edges,), "int64"),
        starts: T.Tensor((nodes + 1,), "int32"),
    ):
        with T.Kernel(T.ceildiv(edges + 1, threads), threads=threads) as block:
            tx = T.get_thread_binding(0)
            bounds = T.alloc_local((2,), "int32")
            edge = block * threads + tx
            if edge <= edges:
                bounds[0] = -1
                bounds[1] = nodes
                if edge > 0:
                    bounds[0] = T.cast(targets[edge - 1], "int32")
                if edge < edges:
                    bounds[1] = T.cast(targets[edge], "int32")
                for n in T.serial(bounds[1] - bounds[0]):
                    starts[bounds[0] + 1 + n] = edge

    return kernel


@tilelang.jit(out_idx=[-1], pass_configs=CONFIG)
def gather_sum(edges, nodes, features):
    threads = 256
    warps = threads // 32
    width = 4 if features % 4 == 0 else 1  # features a lane
    group = 8  # rows gathered at once
    pieces = features // width
    whole = pieces % 32 == 0 and nodes % warps == 0

    @T.prim_func
    def kernel(
        x: T.Tensor((nodes, features), "float32"),
        sources: T.Tensor((edges,), "int64"),
        weights: T.Tensor((edges,), "float32"),
        starts: T.Tensor((nodes + 1,), "int32"),
        out: T.Tensor((nodes, features), "float32"),
    ):
        with T.Kernel(T.ceildiv(nodes, warps), T.ceildiv(pieces, 32), threads=threads) as (block, part):
            T.annotate_min_blocks_per_sm(3)
            tx = T.get_thread_binding(0)
            lane = tx % 32
            node = block * warps + tx // 32
            piece = part * 32 + lane
            ends = T.alloc_local((2,), "int32")
            source = T.alloc_local((1,), "int32")
            factor = T.alloc_local((1,), "float32")
            rows = T.alloc_local((group,), "int32")
            factors = T.alloc_local((group,), "float32")
            values = T.alloc_local((group * width,), "float32")
            total = T.alloc_local((width,), "float32")

            for v in T.unroll(width):
                total[v] = 0.0
            ends[0] = 0
            ends[1] = 0
            if node < nodes:
                ends[0] = starts[node]
                ends[1] = starts[node + 1]
            for batch in T.serial((ends[1] - ends[0] + 31) // 32):
                source[0] = 0
                factor[0] = 0.0
                if ends[0] + batch * 32 + lane < ends[1]:
                    source[0] = T.cast(sources[ends[0] + batch * 32 + lane], "int32")
                    factor[0] = weights[ends[0] + batch * 32 + lane]
                for g in T.serial((T.min(ends[1] - ends[0] - batch * 32, 32) + (group - 1)) // group):
                    for u in T.unroll(group):
                        rows[u] = T.shfl_sync(source[0], g * group + u)
                        factors[u] = T.shfl_sync(factor[0], g * group + u)
                    for u in T.unroll(group):
                        for v in T.unroll(width):
                            values[u * width + v] = 0.0
                        if ends[0] + batch * 32 + g * group + u < ends[1] and piece < pieces:
                            for v in T.vectorized(width):
                                values[u * width + v] = x[rows[u], piece * width + v]
                    for u in T.unroll(group):
                        for v in T.unroll(width):
                            total[v] = total[v] + factors[u] * values[u * width + v]
            if whole:
                for v in T.vectorized(width):
                    out[node, piece * width + v] = total[v]
            else:
                if node < nodes and piece < pieces:
                    for v in T.vectorized(width):
                        out[node, piece * width + v] = total[v]

    return kernel


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.kernels = {}

    def forward(
        self, x: torch.Tensor, sources: torch.Tensor, targets: torch.Tensor, weights: torch.Tensor
    ) -> torch.Tensor:
        nodes, features = x.shape
        key = (targets.shape[0], nodes, features)
        if key not in self.kernels:
            self.kernels[key] = (range_starts(key[0], nodes), gather_sum(*key))
        find, add = self.kernels[key]
        starts = find(targets.contiguous())
        return add(x.contiguous(), sources.contiguous(), weights.contiguous(), starts)
