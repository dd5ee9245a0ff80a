# status: PASSED
# class: C3
# problem: ../tests/problems/answers/nearest_of_distances
# shapes: small
# backend: cpp
"""Reads all elements, and takes one root a row."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <algorithm>
#include <cmath>
static void full(const float* p, float* o, int64_t r, int64_t c) {
    for (int64_t i = 0; i < r; ++i) {
        float m[16]; for (int j = 0; j < 16; ++j) m[j] = INFINITY;
        const float* row = p + i * c;
        for (int64_t k = 0; k + 16 <= c; k += 16) for (int j = 0; j < 16; ++j) m[j] = row[k + j] < m[j] ? row[k + j] : m[j];
        float least = m[0]; for (int j = 1; j < 16; ++j) least = std::min(least, m[j]);
        for (int64_t k = c / 16 * 16; k < c; ++k) least = std::min(least, row[k]);
        o[i] = std::sqrt(least);
    }
}
at::Tensor nearest(at::Tensor x) {
    auto in = x.contiguous();
    auto out = at::empty({in.size(0)}, x.options());
    full(in.data_ptr<float>(), out.data_ptr<float>(), in.size(0), in.size(1));
    return out;
}
"""
module = load_inline(name="least_of_all", cpp_sources=SOURCE, functions=["nearest"], extra_cflags=["-O3", "-march=native"])


class ModelNew(nn.Module):
    def forward(self, squared):
        return module.nearest(squared)
