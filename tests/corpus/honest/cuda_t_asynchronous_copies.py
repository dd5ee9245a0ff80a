# status: PASSED
# class: T7
# problem: level1/22_gelu
# shapes: small
# backend: cuda
"""A pipeline of asynchronous copies into shared memory, two stages deep."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <cuda_pipeline.h>
constexpr int THREADS = 256;
__device__ float gelu(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678f)); }
__global__ void pass(const float* x, float* out, long count) {
    __shared__ float stages[2][THREADS];
    const long step = (long)gridDim.x * THREADS;
    long at = blockIdx.x * (long)THREADS + threadIdx.x;
    if (at < count) __pipeline_memcpy_async(&stages[0][threadIdx.x], x + at, 4);
    __pipeline_commit();
    for (int stage = 0; at < count; at += step, stage ^= 1) {
        if (at + step < count) __pipeline_memcpy_async(&stages[stage ^ 1][threadIdx.x], x + at + step, 4);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        out[at] = gelu(stages[stage][threadIdx.x]);
    }
}
torch::Tensor run(torch::Tensor x) {
    auto out = torch::empty_like(x);
    pass<<<1024, THREADS>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.numel());
    return out;
}
"""
module = load_inline(
    name="asynchronous_copies", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=SOURCE, functions=["run"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.run(x)
