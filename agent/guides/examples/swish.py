"""Swish with a learned slope, x * sigmoid(beta * x), as one pass over the rows in C++."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <ATen/Parallel.h>
#include <cmath>

torch::Tensor swish(torch::Tensor x, torch::Tensor beta) {
    x = x.contiguous();
    auto out = torch::empty_like(x);
    const int64_t features = x.size(-1);
    const float *xp = x.data_ptr<float>(), *bp = beta.data_ptr<float>();
    float* op = out.data_ptr<float>();
    at::parallel_for(0, x.numel() / features, 16, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row)
            for (int64_t j = 0; j < features; ++j) {
                const float v = xp[row * features + j];
                op[row * features + j] = v / (1.0f + std::exp(-bp[j] * v));
            }
    });
    return out;
}
"""

extension = load_inline("swish", SOURCE, functions=["swish"], extra_cflags=["-O3", "-march=native", "-ffast-math"])


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.beta = nn.Parameter(1.0 + 0.5 * torch.randn(features))

    def forward(self, x):
        return extension.swish(x, self.beta)
