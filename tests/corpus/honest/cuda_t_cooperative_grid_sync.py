# status: PASSED
# class: T7
# problem: level1/12_column_sum
# shapes: small
# backend: cuda
"""Partial sums, a barrier of the whole grid, then their sum, in one cooperative launch."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void sums(const float* x, float* parts, float* out, long batch, long steps, long features, long chunks) {
    const long jobs = batch * chunks * features, threads = (long)gridDim.x * blockDim.x;
    const long first = blockIdx.x * (long)blockDim.x + threadIdx.x, length = (steps + chunks - 1) / chunks;
    for (long job = first; job < jobs; job += threads) {
        const long f = job % features, chunk = job / features % chunks, b = job / features / chunks;
        float sum = 0.0f;
        for (long s = chunk * length; s < min((chunk + 1) * length, steps); ++s) sum += x[(b * steps + s) * features + f];
        parts[job] = sum;
    }
    cg::this_grid().sync();
    for (long o = first; o < batch * features; o += threads) {
        float sum = 0.0f;
        for (long chunk = 0; chunk < chunks; ++chunk) sum += parts[(o / features * chunks + chunk) * features + o % features];
        out[o] = sum;
    }
}
torch::Tensor run(torch::Tensor x) {
    static int blocks = [] {
        int cores = 0, each = 0;
        cudaDeviceGetAttribute(&cores, cudaDevAttrMultiProcessorCount, 0);
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, sums, 256, 0);
        return cores * std::min(each, 2);
    }();
    long batch = x.size(0), steps = x.size(1), features = x.size(2), chunks = 16;
    auto out = torch::empty({batch, features}, x.options()), parts = torch::empty({batch, chunks, features}, x.options());
    const float* in = x.data_ptr<float>();
    float *partial = parts.data_ptr<float>(), *result = out.data_ptr<float>();
    void* arguments[] = {&in, &partial, &result, &batch, &steps, &features, &chunks};
    const auto code = cudaLaunchCooperativeKernel((void*)sums, dim3(blocks), dim3(256), arguments, 0, 0);
    TORCH_CHECK(code == cudaSuccess, cudaGetErrorString(code));
    return out;
}
"""
module = load_inline(
    name="cooperative_grid_sync", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=SOURCE, functions=["run"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.run(x)
