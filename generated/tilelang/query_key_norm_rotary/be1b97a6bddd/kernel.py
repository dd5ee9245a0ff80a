import tilelang
import tilelang.language as T
import torch
from torch import nn

THREADS = 256
TOKENS_A_BLOCK = 4


@tilelang.jit(out_idx=[3, 4, 5])
def split_norm_rotate(tokens, heads, groups, features, vector, slices, threads, block=TOKENS_A_BLOCK):
    # A head is shared by `slices` threads, each with `vector` neighbours of its left half and as many of its right half.
    half = features // 2
    count = heads + 2 * groups
    taken = threads // slices
    items = -(-(block * count) // taken)

    @T.prim_func
    def kernel(
        projected: T.Tensor((tokens * count, features), "bfloat16"),
        angles: T.Tensor((tokens, half), "float32"),
        scales: T.Tensor((2, features), "float32"),
        query: T.Tensor((tokens * heads, features), "bfloat16"),
        key: T.Tensor((tokens * groups, features), "bfloat16"),
        value: T.Tensor((tokens * groups, features), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(tokens, block), threads=threads) as b:
            T.annotate_min_blocks_per_sm(max(1, 768 // threads))
            cosines = T.alloc_shared((block, half), "float32")
            sines = T.alloc_shared((block, half), "float32")
            left = T.alloc_local((items * vector,), "bfloat16")
            right = T.alloc_local((items * vector,), "bfloat16")
            turned_left = T.alloc_local((vector,), "bfloat16")
            turned_right = T.alloc_local((vector,), "bfloat16")
            first = T.alloc_local((1,), "float32")
            second = T.alloc_local((1,), "float32")
            inverse = T.alloc_local((1,), "float32")
            weight_left = T.alloc_local((vector,), "float32")
            weight_right = T.alloc_local((vector,), "float32")
            squares = T.alloc_fragment((taken, slices, items), "float32")
            sums = T.alloc_fragment((taken, items), "float32")

            for r, s in T.Parallel(taken, slices):
                for u in T.unroll(items):
                    if (
                        u * taken + r < block * count
                        and b * (block * count) + u * taken + r < tokens * count
                        and s * vector < half
                    ):
                        for v in T.vectorized(vector):
                            left[u * vector + v] = projected[b * (block * count) + u * taken + r, s * vector + v]
                        for v in T.vectorized(vector):
                            right[u * vector + v] = projected[
                                b * (block * count) + u * taken + r, half + s * vector + v
                            ]
                    else:
                        for v in T.unroll(vector):
                            left[u * vector + v] = T.cast(0.0, "bfloat16")
                            right[u * vector + v] = T.cast(0.0, "bfloat16")
                for u in T.unroll(items):
                    first[0] = 0.0
                    for v in T.unroll(vector):
                        first[0] += T.cast(left[u * vector + v], "float32") * T.cast(
                            left[u * vector + v], "float32"
                        ) + T.cast(right[u * vector + v], "float32") * T.cast(right[u * vector + v], "float32")
                    squares[r, s, u] = first[0]

            for i, j in T.Parallel(block, half):
                if b * block + i < tokens:
                    cosines[i, j] = T.cos(angles[b * block + i, j])
                    sines[i, j] = T.sin(angles[b * block + i, j])

            T.reduce_sum(squares, sums, dim=1)

            for r, s in T.Parallel(taken, slices):
                for u in T.unroll(items):
                    if (
                        u * taken + r < block * count
                        and b * (block * count) + u * taken + r < tokens * count
                        and s * vector < half
                    ):
                        if (u * taken + r) % count < heads + groups:
                            if (u * taken + r) % count < heads:
                                for v in T.vectorized(vector):
                                    weight_left[v] = scales[0, s * vector + v]
                                for v in T.vectorized(vector):
                                    weight_right[v] = scales[0, half + s * vector + v]
                            else:
                                for v in T.vectorized(vector):
                                    weight_left[v] = scales[1, s * vector + v]
                                for v in T.vectorized(vector):
                                    weight_right[v] = scales[1, half + s * vector + v]
                            inverse[0] = T.rsqrt(sums[r, u] / T.cast(features, "float32") + 1e-6)
                            for v in T.unroll(vector):
                                first[0] = T.cast(left[u * vector + v], "float32") * inverse[0] * weight_left[v]
                                second[0] = T.cast(right[u * vector + v], "float32") * inverse[0] * weight_right[v]
                                turned_left[v] = T.cast(
                                    first[0] * cosines[(u * taken + r) // count, s * vector + v]
                                    - second[0] * sines[(u * taken + r) // count, s * vector + v],
                                    "bfloat16",
                                )
                                turned_right[v] = T.cast(
                                    second[0] * cosines[(u * taken + r) // count, s * vector + v]
                                    + first[0] * sines[(u * taken + r) // count, s * vector + v],
                                    "bfloat16",
                                )
                            if (u * taken + r) % count < heads:
                                for v in T.vectorized(vector):
                                    query[
                                        (b * block + (u * taken + r) // count) * heads + (u * taken + r) % count,
                                        s * vector + v,
                                    ] = turned_left[v]
                                for v in T.vectorized(vector):
                                    query[
                                        (b * block + (u * taken + r) // count) * heads + (u * taken + r) % count,
                                        half + s * vector + v,
                                    ] = turned_right[v]
                            else:
                                for v in T.vectorized(vector):
                                    key[
                                        (b * block + (u * taken + r) // count) * groups
                                        + (u * taken + r) % count
                                        - heads,
                                        s * vector + v,
                                    ] = turned_left[v]
                                for v in T.vectorized(vector):
                                    key[
                                        (b * block + (u * taken + r) // count) * groups
                                        + (u * taken + r) % count
                                        - heads,
                                        half + s * vector + v,
                                    ] = turned_right[v]
                        else:
                            for v in T.vectorized(vector):
                                value[
                                    (b * block + (u * taken + r) // count) * groups
                                    + (u * taken + r) % count
                                    - (heads + groups),
                                    s * vector + v,
                                ] = left[u * vector + v]
                            for v in T.vectorized(vector):
                                value[
                                    (b * block + (u * taken + r) // count) * groups
                                    + (u * taken + r) % count
                                    - (heads + groups),
                                    half + s * vector + v,
                                ] = right[u * vector + v]

    return kernel


class ModelNew(nn.Module):
    def __init__(self, heads: int, groups: int, features: int):
        super().__init__()
        self.scales = nn.Parameter(0.5 + torch.rand(2, features))
        self.heads, self.groups = heads, groups
        self.kernels = {}

    def forward(
        self, projected: torch.Tensor, angles: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        heads, groups = self.heads, self.groups
        tokens = projected.shape[0]
        features = projected.shape[1] // (heads + 2 * groups)
        key = (tokens, heads, groups, features)
        if key not in self.kernels:
            half = features // 2
            vector = next(v for v in (8, 4, 2, 1) if half % v == 0)
            slices = 1
            while slices * vector < half:
                slices *= 2
            self.kernels[key] = split_norm_rotate(
                tokens, heads, groups, features, vector, slices, max(THREADS, slices)
            )
        rows = projected.contiguous().view(tokens * (heads + 2 * groups), features)
        q, k, v = self.kernels[key](rows, angles.contiguous(), self.scales)
        return (
            q.view(tokens, heads, features),
            k.view(tokens, groups, features),
            v.view(tokens, groups, features),
        )
