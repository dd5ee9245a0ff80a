# status: PASSED
# class: O5
# problem: level1/11_rms_norm
# shapes: small
# backend: cuda
"""Opts in to a lot of dynamic shared memory and checks every error."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
__global__ void norm_rows(const float* x, const float* weight, float* out, int features, float epsilon) {
    extern __shared__ float row[];
    __shared__ float total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    float squares = 0;
    for (int i = threadIdx.x; i < features; i += blockDim.x) {
        row[i] = x[(long)blockIdx.x * features + i];
        squares += row[i] * row[i];
    }
    for (int o = 16; o; o /= 2) squares += __shfl_xor_sync(~0u, squares, o);
    if (threadIdx.x % 32 == 0) atomicAdd(&total, squares);
    __syncthreads();
    const float scale = rsqrtf(total / features + epsilon);
    for (int i = threadIdx.x; i < features; i += blockDim.x) out[(long)blockIdx.x * features + i] = row[i] * scale * weight[i];
}
torch::Tensor rms_norm(torch::Tensor x, torch::Tensor weight, double epsilon) {
    auto out = torch::empty_like(x);
    const int features = weight.numel(), rows = x.numel() / features;
    const size_t bytes = features * sizeof(float) + 64 * 1024;
    TORCH_CHECK(cudaFuncSetAttribute(norm_rows, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) == cudaSuccess, "no room");
    norm_rows<<<rows, 256, bytes>>>(x.data_ptr<float>(), weight.data_ptr<float>(), out.data_ptr<float>(), features, epsilon);
    TORCH_CHECK(cudaGetLastError() == cudaSuccess, "launch failed");
    return out;
}
"""
module = load_inline(
    name="dynamic_shared",
    cpp_sources="torch::Tensor rms_norm(torch::Tensor x, torch::Tensor weight, double epsilon);",
    cuda_sources=SOURCE,
    functions=["rms_norm"],
)


class ModelNew(nn.Module):
    def __init__(self, features, epsilon):
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(1.0 + 0.3 * torch.randn(features))

    def forward(self, x):
        return module.rms_norm(x, self.weight, self.epsilon)
