# status: MEMORY_ERROR | RUNTIME_ERROR | WRONG_VALUES
# needs: sanitizer
# speedup: honest
# class: O14
# problem: level1/05_odd_size_matmul
# shapes: small
# backend: cuda
"""The last tile reads past the end of both matrices and multiplies what it finds by zero."""
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
        left[threadIdx.y][threadIdx.x] = a[(long)row * depth + k] * (row < m && k < depth);
        right[threadIdx.y][threadIdx.x] = b[(long)l * n + column] * (l < depth && column < n);
        __syncthreads();
        for (int i = 0; i < TILE; ++i) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
        __syncthreads();
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
    name="tiles_past_the_end", cpp_sources="torch::Tensor matmul(torch::Tensor a, torch::Tensor b);", cuda_sources=SOURCE, functions=["matmul"]
)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return module.matmul(a, b)
