# status: PASSED
# track: mixed | library
# class: S2
# problem: level2/01_gemm_bias_relu
# shapes: small
# backend: cuda
"""cuBLAS in full float32 and one fused kernel for bias and ReLU."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
__global__ void bias_relu(float* y, const float* bias, long count, int columns) {
    for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < count; i += (long)gridDim.x * blockDim.x)
        y[i] = y[i] + bias[i % columns] < 0.0f ? 0.0f : y[i] + bias[i % columns];
}
torch::Tensor linear_relu(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    auto y = torch::mm(x, weight.t());
    bias_relu<<<512, 256>>>(y.data_ptr<float>(), bias.data_ptr<float>(), y.numel(), y.size(1));
    return y;
}
"""
module = load_inline(
    name="fused_epilogue",
    cpp_sources="torch::Tensor linear_relu(torch::Tensor x, torch::Tensor weight, torch::Tensor bias);",
    cuda_sources=SOURCE,
    functions=["linear_relu"],
)


class ModelNew(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outside, inside) / inside**0.5)
        self.bias = nn.Parameter(torch.randn(outside))

    def forward(self, x):
        with torch.no_grad():
            return module.linear_relu(x, self.weight, self.bias)
