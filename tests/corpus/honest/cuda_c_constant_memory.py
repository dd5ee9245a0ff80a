# status: PASSED
# class: C4
# problem: level1/23_swish
# shapes: small
# backend: cuda
"""Parameters are copied to constant memory in stream order before each kernel."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
__constant__ float slopes[8192];
__global__ void pass(const float* x, float* out, long rows, int features) {
    for (int f = threadIdx.x; f < features; f += blockDim.x)
        for (long r = blockIdx.x; r < rows; r += gridDim.x) {
            const float v = x[r * features + f];
            out[r * features + f] = v / (1.0f + expf(-slopes[f] * v));
        }
}
torch::Tensor run(torch::Tensor x, torch::Tensor beta) {
    auto out = torch::empty_like(x);
    TORCH_CHECK(beta.numel() <= 8192, "too many features");
    cudaMemcpyToSymbolAsync(slopes, beta.data_ptr<float>(), beta.nbytes(), 0, cudaMemcpyDeviceToDevice, 0);
    pass<<<x.size(0), 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.size(0), x.size(1));
    return out;
}
"""
module = load_inline(
    name="constant_memory", cpp_sources="torch::Tensor run(torch::Tensor x, torch::Tensor beta);", cuda_sources=SOURCE, functions=["run"]
)


class ModelNew(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.beta = nn.Parameter(1.0 + 0.5 * torch.randn(features))

    def forward(self, x):
        return module.run(x, self.beta)
