# status: PASSED
# class: C9
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""The extension is built on first use and kept by functools.lru_cache."""
import functools

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>
torch::Tensor row_softmax(torch::Tensor x) {
    x = x.contiguous();
    auto out = torch::empty_like(x);
    const int64_t rows = x.size(0), width = x.size(1);
    for (int64_t row = 0; row < rows; ++row) {
        const float* a = x.data_ptr<float>() + row * width;
        float* b = out.data_ptr<float>() + row * width;
        float top = a[0], sum = 0;
        for (int64_t i = 1; i < width; ++i) top = std::max(top, a[i]);
        for (int64_t i = 0; i < width; ++i) sum += b[i] = std::exp(a[i] - top);
        for (int64_t i = 0; i < width; ++i) b[i] /= sum;
    }
    return out;
}
"""


@functools.lru_cache(maxsize=None)
def extension():
    return load_inline(name="plain_softmax", cpp_sources=SOURCE, functions=["row_softmax"], extra_cflags=["-O3"])


class ModelNew(nn.Module):
    def forward(self, x):
        return extension().row_softmax(x)
