# status: PASSED
# class: T2
# problem: level1/09_softmax
# shapes: small
# backend: cuda
"""Rows on three streams of different priority, joined by events one after the other."""
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
__global__ void rows(const float* x, float* out, long columns) {
    softmax_row(x + blockIdx.x * columns, out + blockIdx.x * columns, columns);
}
struct Lane {
    cudaStream_t stream; cudaEvent_t done;
    explicit Lane(int priority) {
        cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority);
        cudaEventCreateWithFlags(&done, cudaEventDisableTiming);
    }
};
torch::Tensor run(torch::Tensor x) {
    static Lane lanes[3] = {Lane(0), Lane(-1), Lane(-2)};
    static cudaEvent_t fork = [] { cudaEvent_t e; cudaEventCreateWithFlags(&e, cudaEventDisableTiming); return e; }();
    auto out = torch::empty_like(x);
    const long columns = x.size(1), third = (x.size(0) + 2) / 3;
    cudaEventRecord(fork, 0);
    for (long i = 0; i < 3; ++i) {
        const long first = i * third, count = std::min(third, x.size(0) - first);
        if (count <= 0) break;
        cudaStreamWaitEvent(lanes[i].stream, fork, 0);
        rows<<<count, 256, 0, lanes[i].stream>>>(x.data_ptr<float>() + first * columns, out.data_ptr<float>() + first * columns, columns);
        cudaEventRecord(lanes[i].done, lanes[i].stream);
    }
    for (auto& lane : lanes) cudaStreamWaitEvent(0, lane.done, 0);
    return out;
}
"""
module = load_inline(
    name="three_streams_with_priorities", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=SOURCE, functions=["run"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.run(x)
