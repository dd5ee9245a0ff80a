# status: PASSED
# class: T7
# problem: level1/22_gelu
# shapes: small
# backend: cuda
"""One warp fetches tiles while the others compute; named barriers pass two buffers between them."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
__device__ float gelu(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678f)); }
constexpr int TILE = 1024, THREADS = 32 + 256;
__device__ void wait(int barrier) { asm volatile("bar.sync %0, %1;" :: "r"(barrier), "r"(THREADS) : "memory"); }
__device__ void arrive(int barrier) { asm volatile("bar.arrive %0, %1;" :: "r"(barrier), "r"(THREADS) : "memory"); }
__global__ void tiles(const float* x, float* out, long count) {
    __shared__ float buffers[2][TILE];
    const bool fetches = threadIdx.x < 32;
    int turn = 0;
    for (long first = blockIdx.x * (long)TILE; first < count; first += (long)gridDim.x * TILE, turn ^= 1) {
        const int full = 1 + turn, empty = 3 + turn;
        if (fetches) {
            wait(empty);
            for (int i = threadIdx.x; i < TILE && first + i < count; i += 32) buffers[turn][i] = x[first + i];
            __threadfence_block();
            arrive(full);
        } else {
            arrive(empty);
            wait(full);
            for (int i = threadIdx.x - 32; i < TILE && first + i < count; i += 256) out[first + i] = gelu(buffers[turn][i]);
        }
    }
}
torch::Tensor run(torch::Tensor x) {
    auto out = torch::empty_like(x);
    tiles<<<528, THREADS>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.numel());
    return out;
}
"""
module = load_inline(
    name="warp_specialisation", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=SOURCE, functions=["run"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.run(x)
