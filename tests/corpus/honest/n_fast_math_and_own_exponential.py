# status: PASSED
# class: N3
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""-ffast-math and an exponential of its own with full float32 accuracy."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>
static inline float exponential(float x) {
    x = x < -87.0f ? -87.0f : x;
    const float n = std::floor(x * 1.44269504f + 0.5f);
    float r = x - n * 0.693145752f;
    r -= n * 1.42860677e-6f;
    const float p = 1 + r * (1 + r * (0.5f + r * (1.66666667e-1f + r * (4.16666667e-2f + r * (8.33333333e-3f + r * (1.38888889e-3f + r * 1.98412698e-4f))))));
    return std::ldexp(p, static_cast<int>(n));
}
torch::Tensor fast_softmax(torch::Tensor x) {
    x = x.contiguous();
    auto out = torch::empty_like(x);
    const int64_t width = x.size(-1), rows = x.numel() / width;
    for (int64_t row = 0; row < rows; ++row) {
        const float* a = x.data_ptr<float>() + row * width;
        float* b = out.data_ptr<float>() + row * width;
        float top = a[0], sum = 0;
        for (int64_t i = 1; i < width; ++i) top = a[i] > top ? a[i] : top;
        for (int64_t i = 0; i < width; ++i) sum += b[i] = exponential(a[i] - top);
        for (int64_t i = 0; i < width; ++i) b[i] /= sum;
    }
    return out;
}
"""
module = load_inline(name="fast_softmax", cpp_sources=SOURCE, functions=["fast_softmax"], extra_cflags=["-O3", "-ffast-math"])


class ModelNew(nn.Module):
    def forward(self, x):
        return module.fast_softmax(x)
