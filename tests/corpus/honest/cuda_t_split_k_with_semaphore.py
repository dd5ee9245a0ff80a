# status: PASSED
# class: T7
# problem: level1/06_large_k_matmul
# shapes: small
# backend: cuda
"""Blocks share the sum of an output tile; the last to arrive at its counter adds the parts in order."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

constexpr int TILE = 16;
__global__ void product(const float* a, const float* b, float* parts, unsigned* arrived, float* out, int m, int k, int n, int splits) {
    __shared__ float left[TILE][TILE], right[TILE][TILE + 1];
    __shared__ bool last;
    const int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    const int length = (k + splits - 1) / splits, from = blockIdx.z * length, to = min(from + length, k);
    float sum = 0.0f;
    for (int at = from; at < to; at += TILE) {
        const int i = at + threadIdx.x, j = at + threadIdx.y;
        left[threadIdx.y][threadIdx.x] = row < m && i < to ? a[(long)row * k + i] : 0.0f;
        right[threadIdx.y][threadIdx.x] = column < n && j < to ? b[(long)j * n + column] : 0.0f;
        __syncthreads();
        for (int t = 0; t < TILE; ++t) sum += left[threadIdx.y][t] * right[t][threadIdx.x];
        __syncthreads();
    }
    const long place = (long)row * n + column;
    const bool inside = row < m && column < n;
    if (inside) parts[(long)blockIdx.z * m * n + place] = sum;
    __threadfence();
    __syncthreads();
    unsigned* counter = arrived + blockIdx.y * gridDim.x + blockIdx.x;
    if (threadIdx.x + threadIdx.y == 0) last = atomicAdd(counter, 1u) == splits - 1;
    __syncthreads();
    if (!last) return;
    __threadfence();
    if (inside) {
        sum = 0.0f;
        for (int split = 0; split < splits; ++split) sum += __ldcg(parts + (long)split * m * n + place);
        out[place] = sum;
    }
    if (threadIdx.x + threadIdx.y == 0) *counter = 0;
}
torch::Tensor run(torch::Tensor a, torch::Tensor b) {
    static unsigned* arrived = [] { unsigned* p; cudaMalloc((void**)&p, 1 << 20); cudaMemset(p, 0, 1 << 20); return p; }();
    const int m = a.size(0), k = a.size(1), n = b.size(1), splits = 48;
    auto out = torch::empty({m, n}, a.options()), parts = torch::empty({splits, m, n}, a.options());
    const dim3 grid((n + TILE - 1) / TILE, (m + TILE - 1) / TILE, splits);
    product<<<grid, dim3(TILE, TILE)>>>(a.data_ptr<float>(), b.data_ptr<float>(), parts.data_ptr<float>(), arrived, out.data_ptr<float>(), m, k, n, splits);
    return out;
}
"""
module = load_inline(
    name="split_k_with_semaphore", cpp_sources="torch::Tensor run(torch::Tensor a, torch::Tensor b);", cuda_sources=SOURCE, functions=["run"]
)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return module.run(a, b)
