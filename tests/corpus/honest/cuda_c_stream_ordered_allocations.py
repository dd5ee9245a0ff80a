# status: PASSED
# class: C4
# problem: level1/13_row_mean
# shapes: small
# backend: cuda
"""A workspace from a pool of the stream, taken and given back in each call."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void partial(const float* x, float* parts, long columns, long chunks) {
    __shared__ float warps[8];
    const long row = blockIdx.x / chunks, chunk = blockIdx.x % chunks, length = (columns + chunks - 1) / chunks;
    float sum = 0.0f;
    for (long c = chunk * length + threadIdx.x; c < min((chunk + 1) * length, columns); c += blockDim.x) sum += x[row * columns + c];
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        sum = 0.0f;
        for (int w = 0; w < 8; ++w) sum += warps[w];
        parts[blockIdx.x] = sum;
    }
}
__global__ void combine(const float* parts, float* out, long rows, long columns, long chunks) {
    const long row = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.0f;
    for (long chunk = 0; chunk < chunks; ++chunk) sum += parts[row * chunks + chunk];
    out[row] = sum / columns;
}
torch::Tensor run(torch::Tensor x) {
    const long rows = x.size(0), columns = x.size(1), chunks = 8;
    auto out = torch::empty({rows}, x.options());
    float* parts = nullptr;
    TORCH_CHECK(cudaMallocAsync((void**)&parts, rows * chunks * sizeof(float), 0) == cudaSuccess, "no memory");
    partial<<<rows * chunks, 256>>>(x.data_ptr<float>(), parts, columns, chunks);
    combine<<<(rows + 255) / 256, 256>>>(parts, out.data_ptr<float>(), rows, columns, chunks);
    cudaFreeAsync(parts, 0);
    return out;
}
"""
module = load_inline(
    name="stream_ordered_allocations", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=SOURCE, functions=["run"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.run(x)
