# status: RACE | WRONG_VALUES | NONDETERMINISTIC
# needs: sanitizer
# speedup: honest
# class: O13
# problem: level1/01_square_matmul
# shapes: small
# backend: cuda
"""A tiled product without its second barrier: right on most runs, wrong when a warp falls behind."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
constexpr int TILE = 16;
__global__ void tiled(const float* a, const float* b, float* c, int m, int n, int depth) {
    __shared__ float left[TILE][TILE], right[TILE][TILE];
    const int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int k0 = 0; k0 < depth; k0 += TILE) {
        const int k = k0 + threadIdx.x, l = k0 + threadIdx.y;
        left[threadIdx.y][threadIdx.x] = row < m && k < depth ? a[(long)row * depth + k] : 0;
        right[threadIdx.y][threadIdx.x] = l < depth && column < n ? b[(long)l * n + column] : 0;
        __syncthreads();
        for (int i = 0; i < TILE; ++i) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
    }
    if (row < m && column < n) c[(long)row * n + column] = sum;
}
torch::Tensor matmul(torch::Tensor a, torch::Tensor b) {
    const int m = a.size(0), depth = a.size(1), n = b.size(1);
    auto c = torch::empty({m, n}, a.options());
    tiled<<<dim3((n + TILE - 1) / TILE, (m + TILE - 1) / TILE), dim3(TILE, TILE)>>>(a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), m, n, depth);
    return c;
}
"""
module = load_inline(
    name="missing_barrier", cpp_sources="torch::Tensor matmul(torch::Tensor a, torch::Tensor b);", cuda_sources=SOURCE, functions=["matmul"]
)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return module.matmul(a, b)
