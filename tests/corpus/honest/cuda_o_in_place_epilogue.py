# status: PASSED
# class: O12
# problem: level2/01_gemm_bias_relu
# shapes: small
# backend: cuda
"""The epilogue works in place on the product, which is its own."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void finish(float* out, const float* bias, long count, long columns) {
    for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < count; i += (long)gridDim.x * blockDim.x)
        out[i] = fmaxf(out[i] + bias[i % columns], 0.0f);
}
torch::Tensor run(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    auto out = torch::empty({x.size(0), weight.size(0)}, x.options());
    torch::mm_out(out, x, weight.t());
    finish<<<512, 256>>>(out.data_ptr<float>(), bias.data_ptr<float>(), out.numel(), out.size(1));
    return out;
}
"""
module = load_inline(
    name="in_place_epilogue", cpp_sources="torch::Tensor run(torch::Tensor x, torch::Tensor weight, torch::Tensor bias);", cuda_sources=SOURCE, functions=["run"]
)


class ModelNew(nn.Module):
    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_features, in_features) / in_features**0.5)
        self.bias = nn.Parameter(torch.randn(out_features))

    def forward(self, x):
        return module.run(x, self.weight, self.bias)
