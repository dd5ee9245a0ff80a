"""RMS norm in one C++ loop a row: the row is read once from memory and once from the cache."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <ATen/Parallel.h>
#include <cmath>

torch::Tensor rms_norm(torch::Tensor x, torch::Tensor weight, double eps) {
    x = x.contiguous();
    auto out = torch::empty_like(x);
    const int64_t n = x.size(-1), rows = x.numel() / n;
    const float *xp = x.data_ptr<float>(), *w = weight.data_ptr<float>();
    float* op = out.data_ptr<float>();
    at::parallel_for(0, rows, 8, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
            const float* in = xp + row * n;
            float sum = 0.0f;
            #pragma omp simd reduction(+ : sum)
            for (int64_t j = 0; j < n; ++j) sum += in[j] * in[j];
            const float scale = 1.0f / std::sqrt(sum / n + (float)eps);
            for (int64_t j = 0; j < n; ++j) op[row * n + j] = in[j] * scale * w[j];
        }
    });
    return out;
}
"""

FLAGS = ["-O3", "-march=native", "-fopenmp"]
extension = load_inline("rms_norm", SOURCE, functions=["rms_norm"], extra_cflags=FLAGS)


class ModelNew(nn.Module):
    def __init__(self, features, epsilon):
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(1.0 + 0.3 * torch.randn(features))

    def forward(self, x):
        return extension.rms_norm(x, self.weight, self.epsilon)
