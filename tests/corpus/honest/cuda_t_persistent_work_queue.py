# status: PASSED
# class: T2
# problem: level1/09_softmax
# shapes: small
# backend: cuda
"""As many blocks as fit take rows from a counter, which is set to zero in stream order."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__device__ float all(float v, bool sum) {
    __shared__ float parts[32];
    for (int d = 16; d; d /= 2) { const float o = __shfl_xor_sync(~0u, v, d); v = sum ? v + o : fmaxf(v, o); }
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
    __syncthreads();
    v = parts[0];
    for (unsigned w = 1; w < blockDim.x / 32; ++w) v = sum ? v + parts[w] : fmaxf(v, parts[w]);
    return v;
}
__device__ void softmax_row(const float* x, float* out, long columns) {
    float most = -INFINITY, sum = 0.0f;
    for (long c = threadIdx.x; c < columns; c += blockDim.x) most = fmaxf(most, x[c]);
    most = all(most, false);
    for (long c = threadIdx.x; c < columns; c += blockDim.x) sum += expf(x[c] - most);
    sum = all(sum, true);
    for (long c = threadIdx.x; c < columns; c += blockDim.x) out[c] = expf(x[c] - most) / sum;
}
__global__ void worker(const float* x, float* out, unsigned* next, long rows, long columns) {
    __shared__ unsigned row;
    while (true) {
        if (threadIdx.x == 0) row = atomicAdd(next, 1u);
        __syncthreads();
        const long mine = row;
        if (mine >= rows) return;
        softmax_row(x + mine * columns, out + mine * columns, columns);
        __syncthreads();
    }
}
torch::Tensor run(torch::Tensor x) {
    static unsigned* next = [] { unsigned* p; cudaMalloc((void**)&p, sizeof(unsigned)); return p; }();
    static int cores = [] { int n = 0; cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, 0); return n; }();
    auto out = torch::empty_like(x);
    cudaMemsetAsync(next, 0, sizeof(unsigned), 0);
    worker<<<4 * cores, 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), next, x.size(0), x.size(1));
    return out;
}
"""
module = load_inline(
    name="persistent_work_queue", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=SOURCE, functions=["run"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.run(x)
