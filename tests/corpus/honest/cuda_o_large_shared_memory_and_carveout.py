# status: PASSED
# class: O3
# problem: level1/09_softmax
# shapes: small
# backend: cuda
"""A row in more than 48 KiB of dynamic shared memory, with the carve-out chosen for it."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__device__ float all(float v, bool sum) {
    __shared__ float parts[8];
    for (int d = 16; d; d /= 2) { const float o = __shfl_xor_sync(~0u, v, d); v = sum ? v + o : fmaxf(v, o); }
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
    __syncthreads();
    v = parts[0];
    for (int w = 1; w < 8; ++w) v = sum ? v + parts[w] : fmaxf(v, parts[w]);
    return v;
}
__global__ void rows(const float* x, float* out, long columns) {
    extern __shared__ float row[];
    x += blockIdx.x * columns;
    float most = -INFINITY, sum = 0.0f;
    for (long c = threadIdx.x; c < columns; c += blockDim.x) { row[c] = x[c]; most = fmaxf(most, row[c]); }
    most = all(most, false);
    for (long c = threadIdx.x; c < columns; c += blockDim.x) { row[c] = expf(row[c] - most); sum += row[c]; }
    sum = all(sum, true);
    for (long c = threadIdx.x; c < columns; c += blockDim.x) out[blockIdx.x * columns + c] = row[c] / sum;
}
torch::Tensor run(torch::Tensor x) {
    auto out = torch::empty_like(x);
    const int bytes = 96 << 10;
    TORCH_CHECK(x.size(1) * 4 <= bytes, "rows are too long");
    cudaFuncSetAttribute(rows, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    cudaFuncSetAttribute(rows, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
    rows<<<x.size(0), 256, bytes>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.size(1));
    return out;
}
"""
module = load_inline(
    name="large_shared_memory_and_carveout", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=SOURCE, functions=["run"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.run(x)
