# status: PASSED
# class: T2
# problem: level1/22_gelu
# shapes: small
# backend: cuda
"""Two halves on two streams of its own, forked from and joined to the current stream by events."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
__device__ float gelu(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678f)); }
__global__ void pass(const float* x, float* out, long count) {
    for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < count; i += (long)gridDim.x * blockDim.x) out[i] = gelu(x[i]);
}
static cudaStream_t stream() { cudaStream_t s; cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking); return s; }
static cudaEvent_t event() { cudaEvent_t e; cudaEventCreateWithFlags(&e, cudaEventDisableTiming); return e; }
torch::Tensor run(torch::Tensor x) {
    static cudaStream_t streams[2] = {stream(), stream()};
    static cudaEvent_t fork = event(), joins[2] = {event(), event()};
    auto out = torch::empty_like(x);
    const long half = x.numel() / 2;
    cudaEventRecord(fork, 0);
    for (int i = 0; i < 2; ++i) {
        const long first = i * half, count = i ? x.numel() - half : half;
        cudaStreamWaitEvent(streams[i], fork, 0);
        pass<<<512, 256, 0, streams[i]>>>(x.data_ptr<float>() + first, out.data_ptr<float>() + first, count);
        cudaEventRecord(joins[i], streams[i]);
        cudaStreamWaitEvent(0, joins[i], 0);
    }
    return out;
}
"""
module = load_inline(
    name="two_halves_on_two_streams", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=SOURCE, functions=["run"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.run(x)
