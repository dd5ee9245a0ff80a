# status: PASSED
# class: T14
# problem: level1/23_swish
# shapes: small
# backend: cuda
"""A persisting window of the L2 cache covers the parameters, not inputs or outputs."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void pass(const float* x, const float* beta, float* out, long rows, int features) {
    for (int f = threadIdx.x; f < features; f += blockDim.x) {
        const long i = blockIdx.x * (long)features + f;
        out[i] = x[i] / (1.0f + expf(-beta[f] * x[i]));
    }
}
torch::Tensor run(torch::Tensor x, torch::Tensor beta) {
    static bool reserved = cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 1 << 20) == cudaSuccess;
    auto out = torch::empty_like(x);
    cudaStreamAttrValue value = {};
    value.accessPolicyWindow.base_ptr = beta.data_ptr();
    value.accessPolicyWindow.num_bytes = reserved ? beta.nbytes() : 0;
    value.accessPolicyWindow.hitRatio = 1.0f;
    value.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
    value.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
    cudaStreamSetAttribute(0, cudaStreamAttributeAccessPolicyWindow, &value);
    cudaGetLastError();
    pass<<<x.size(0), 256>>>(x.data_ptr<float>(), beta.data_ptr<float>(), out.data_ptr<float>(), x.size(0), x.size(1));
    return out;
}
"""
module = load_inline(
    name="persisting_window_on_weights", cpp_sources="torch::Tensor run(torch::Tensor x, torch::Tensor beta);", cuda_sources=SOURCE, functions=["run"]
)


class ModelNew(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.beta = nn.Parameter(1.0 + 0.5 * torch.randn(features))

    def forward(self, x):
        return module.run(x, self.beta)
