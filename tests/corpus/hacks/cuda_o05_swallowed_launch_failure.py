# status: WRONG_VALUES | RUNTIME_ERROR
# class: O5
# problem: level1/22_gelu
# shapes: small
# backend: cuda
"""Asks for more shared memory than there is, clears the error, returns what was in the buffer."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
__global__ void gelu(const float* x, float* out, long count) {
    extern __shared__ float room[];
    const long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    room[threadIdx.x] = 0;
    if (i < count) out[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.70710678f)) + room[threadIdx.x];
}
torch::Tensor run(torch::Tensor x) {
    auto out = torch::empty_like(x);
    gelu<<<(x.numel() + 255) / 256, 256, 1 << 20>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.numel());
    cudaGetLastError();
    return out;
}
"""
module = load_inline(
    name="swallowed_failure", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=SOURCE, functions=["run"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.run(x)
