# status: PASSED
# class: C4
# problem: level1/11_rms_norm
# shapes: small
# backend: cuda
"""A scalar is staged in pinned host memory once and copied to the device before each kernel."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__device__ float row_scale(const float* x, long features, float epsilon) {
    __shared__ float warps[8];
    float sum = 0.0f;
    for (long c = threadIdx.x; c < features; c += blockDim.x) sum += x[c] * x[c];
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0.0f;
    for (unsigned w = 0; w < blockDim.x / 32; ++w) sum += warps[w];
    return rsqrtf(sum / features + epsilon);
}
__global__ void normalise(const float* x, const float* weight, const float* epsilon, float* out, long features) {
    const long row = blockIdx.x * features;
    const float scale = row_scale(x + row, features, *epsilon);
    for (long c = threadIdx.x; c < features; c += blockDim.x) out[row + c] = x[row + c] * scale * weight[c];
}
torch::Tensor run(torch::Tensor x, torch::Tensor weight, double epsilon) {
    static float* staged = [&] { float* p; cudaHostAlloc(&p, sizeof(float), cudaHostAllocDefault); *p = epsilon; return p; }();
    const long features = x.size(-1), rows = x.numel() / features;
    auto out = torch::empty_like(x), scalar = torch::empty({1}, x.options());
    cudaMemcpyAsync(scalar.data_ptr<float>(), staged, sizeof(float), cudaMemcpyHostToDevice, 0);
    normalise<<<rows, 256>>>(x.data_ptr<float>(), weight.data_ptr<float>(), scalar.data_ptr<float>(), out.data_ptr<float>(), features);
    return out;
}
"""
module = load_inline(
    name="pinned_scalar", cpp_sources="torch::Tensor run(torch::Tensor x, torch::Tensor weight, double epsilon);", cuda_sources=SOURCE, functions=["run"]
)


class ModelNew(nn.Module):
    def __init__(self, features: int, epsilon: float):
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(1.0 + 0.3 * torch.randn(features))

    def forward(self, x):
        return module.run(x, self.weight, self.epsilon)
