# status: PASSED
# class: O14 O17
# problem: level1/22_gelu
# shapes: odd
# backend: cpp
"""Loads that need 32-byte alignment, as every tensor that torch allocates has, and a tail that is not a vector."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>
#ifdef __AVX__
#include <immintrin.h>
#endif
static inline float gelu_one(float x) { return 0.5f * x * (1.0f + std::erf(x * 0.70710678f)); }
torch::Tensor gelu(torch::Tensor x) {
    auto out = torch::empty_like(x);
    const float* source = x.data_ptr<float>();
    float* target = out.data_ptr<float>();
    const int64_t count = x.numel();
    int64_t i = 0;
#ifdef __AVX__
    for (; i + 8 <= count; i += 8) {
        alignas(32) float lane[8];
        _mm256_store_ps(lane, _mm256_load_ps(source + i));
        for (int k = 0; k < 8; ++k) lane[k] = gelu_one(lane[k]);
        _mm256_store_ps(target + i, _mm256_load_ps(lane));
    }
#endif
    for (; i < count; ++i) target[i] = gelu_one(source[i]);
    return out;
}
"""
module = load_inline(name="gelu_aligned", cpp_sources=SOURCE, functions=["gelu"], extra_cflags=["-O3", "-march=native"])


class ModelNew(nn.Module):
    def forward(self, x):
        return module.gelu(x)
