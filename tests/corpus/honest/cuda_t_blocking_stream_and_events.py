# status: PASSED
# class: T2
# problem: level1/22_gelu
# shapes: small
# backend: cuda
"""An ordinary blocking stream, which also waits for the legacy default stream by itself."""
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
torch::Tensor run(torch::Tensor x) {
    static cudaStream_t own = [] { cudaStream_t s; cudaStreamCreate(&s); return s; }();
    static cudaEvent_t done = [] { cudaEvent_t e; cudaEventCreate(&e); return e; }();
    auto out = torch::empty_like(x);
    const long half = x.numel() / 2;
    pass<<<512, 256, 0, own>>>(x.data_ptr<float>(), out.data_ptr<float>(), half);
    pass<<<512, 256>>>(x.data_ptr<float>() + half, out.data_ptr<float>() + half, x.numel() - half);
    cudaEventRecord(done, own);
    cudaStreamWaitEvent(0, done, 0);
    return out;
}
"""
module = load_inline(
    name="blocking_stream_and_events", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=SOURCE, functions=["run"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.run(x)
