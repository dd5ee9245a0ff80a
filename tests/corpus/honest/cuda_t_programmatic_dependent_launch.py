# status: PASSED
# class: T7
# problem: level1/11_rms_norm
# shapes: small
# backend: cuda
"""The second kernel may begin before the first has ended, and waits for it on the device."""
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
__global__ void scales(const float* x, float* scale, long features, float epsilon) {
    const float found = row_scale(x + blockIdx.x * features, features, epsilon);
    if (threadIdx.x == 0) scale[blockIdx.x] = found;
    __syncthreads();
    cudaTriggerProgrammaticLaunchCompletion();
}
__global__ void multiply(const float* x, const float* scale, const float* weight, float* out, long features) {
    const long row = blockIdx.x * features;
    cudaGridDependencySynchronize();
    for (long c = threadIdx.x; c < features; c += blockDim.x) out[row + c] = x[row + c] * scale[blockIdx.x] * weight[c];
}
torch::Tensor run(torch::Tensor x, torch::Tensor weight, double epsilon) {
    const long features = x.size(-1), rows = x.numel() / features;
    auto out = torch::empty_like(x), scale = torch::empty({rows}, x.options());
    scales<<<rows, 256>>>(x.data_ptr<float>(), scale.data_ptr<float>(), features, epsilon);
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(rows);
    config.blockDim = dim3(256);
    config.attrs = &early;
    config.numAttrs = 1;
    const float *in = x.data_ptr<float>(), *factor = scale.data_ptr<float>(), *weights = weight.data_ptr<float>();
    const auto code = cudaLaunchKernelEx(&config, multiply, in, factor, weights, out.data_ptr<float>(), features);
    TORCH_CHECK(code == cudaSuccess, cudaGetErrorString(code));
    return out;
}
"""
module = load_inline(
    name="programmatic_dependent_launch", cpp_sources="torch::Tensor run(torch::Tensor x, torch::Tensor weight, double epsilon);", cuda_sources=SOURCE, functions=["run"]
)


class ModelNew(nn.Module):
    def __init__(self, features: int, epsilon: float):
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(1.0 + 0.3 * torch.randn(features))

    def forward(self, x):
        return module.run(x, self.weight, self.epsilon)
