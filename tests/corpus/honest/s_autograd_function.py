# status: PASSED
# class: S5
# problem: level1/22_gelu
# shapes: small
# backend: cpp
"""A custom autograd function around a kernel, as training code has it."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>
torch::Tensor gelu_forward(const torch::Tensor& x) {
    auto input = x.contiguous();
    auto out = torch::empty_like(input);
    const float* a = input.data_ptr<float>();
    float* b = out.data_ptr<float>();
    for (int64_t i = 0; i < input.numel(); ++i) b[i] = a[i] * 0.5f * std::erfc(-a[i] * 0.70710678f);
    return out;
}
torch::Tensor gelu_backward(const torch::Tensor& grad, const torch::Tensor& x) {
    auto slope = grad.contiguous(), input = x.contiguous();
    auto out = torch::empty_like(input);
    const float* s = slope.data_ptr<float>();
    const float* a = input.data_ptr<float>();
    float* b = out.data_ptr<float>();
    for (int64_t i = 0; i < input.numel(); ++i) {
        const float density = 0.39894228f * std::exp(-0.5f * a[i] * a[i]);
        b[i] = s[i] * (0.5f * std::erfc(-a[i] * 0.70710678f) + a[i] * density);
    }
    return out;
}
"""
module = load_inline(
    name="gelu_with_gradient", cpp_sources=SOURCE, functions=["gelu_forward", "gelu_backward"], extra_cflags=["-O3"], verbose=True
)


class Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return module.gelu_forward(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return module.gelu_backward(grad, x)


class ModelNew(nn.Module):
    def forward(self, x):
        return Gelu.apply(x)
