# status: PASSED
# track: mixed | library
# class: S2
# problem: level2/02_gemm_scale_leaky_relu
# shapes: small
# backend: cpp
"""The library's product, its own fused epilogue."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
torch::Tensor linear_scale_leaky(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, torch::Tensor scale, double slope) {
    auto out = torch::matmul(x, weight.t()).contiguous();
    const int64_t rows = out.size(0), width = out.size(1);
    const float *b = bias.data_ptr<float>(), *s = scale.data_ptr<float>();
    float* data = out.data_ptr<float>();
    const float leak = static_cast<float>(slope);
    for (int64_t row = 0; row < rows; ++row)
        for (int64_t i = 0; i < width; ++i) {
            const float v = (data[row * width + i] + b[i]) * s[i];
            data[row * width + i] = v < 0 ? v * leak : v;
        }
    return out;
}
"""
module = load_inline(name="linear_scale_leaky", cpp_sources=SOURCE, functions=["linear_scale_leaky"], extra_cflags=["-O3"])


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features, slope):
        super().__init__()
        self.slope = slope
        self.weight = nn.Parameter(torch.randn(out_features, in_features) / in_features**0.5)
        self.bias = nn.Parameter(torch.randn(out_features))
        self.scale = nn.Parameter(1.0 + 0.5 * torch.randn(out_features))

    def forward(self, x):
        return module.linear_scale_leaky(x, self.weight, self.bias, self.scale, self.slope)
