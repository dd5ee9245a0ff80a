"""Asynchronous copies into shared memory, double buffered."""

import torch
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_pipeline.h>

constexpr int TILE = 1024;

__global__ void smooth_kernel(const float* __restrict__ x, float* __restrict__ y, int tiles) {
    __shared__ alignas(16) float buffer[2][TILE];
    const int t = threadIdx.x * 4;
    int stage = 0;
    int tile = blockIdx.x;
    if (tile < tiles) {
        __pipeline_memcpy_async(&buffer[0][t], x + (size_t)tile * TILE + t, 16);
        __pipeline_commit();
    }
    for (; tile < tiles; tile += gridDim.x) {
        const int next = tile + gridDim.x;
        if (next < tiles) {
            __pipeline_memcpy_async(&buffer[stage ^ 1][t], x + (size_t)next * TILE + t, 16);
            __pipeline_commit();
            __pipeline_wait_prior(1);
        } else {
            __pipeline_wait_prior(0);
        }
        __syncthreads();
        for (int i = t; i < t + 4; ++i) {
            const float left = i > 0 ? buffer[stage][i - 1] : buffer[stage][i];
            y[(size_t)tile * TILE + i] = 0.5f * (left + buffer[stage][i]);
        }
        __syncthreads();
        stage ^= 1;
    }
}

torch::Tensor smooth(torch::Tensor x) {
    TORCH_CHECK(x.size(1) == TILE && x.is_contiguous());
    auto y = torch::empty_like(x);
    const int tiles = x.size(0);
    smooth_kernel<<<std::min(tiles, 64), TILE / 4>>>(x.data_ptr<float>(), y.data_ptr<float>(), tiles);
    return y;
}
"""

ext = load_inline("smooth_async", "torch::Tensor smooth(torch::Tensor x);", cuda_source, functions=["smooth"])


def check():
    x = torch.randn(150, 1024, device="cuda")
    left = torch.cat([x[:, :1], x[:, :-1]], 1)
    return [(ext.smooth(x), 0.5 * (left + x))]
