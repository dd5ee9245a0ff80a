"""OpenMP pragmas over rows, flags given as one string, linker flag for gomp."""

import torch
from torch.utils.cpp_extension import load_inline

softmax_source = """
#include <torch/extension.h>
#include <omp.h>
#include <algorithm>
#include <cmath>
#include <limits>

torch::Tensor softmax_rows(torch::Tensor input) {
    input = input.contiguous();
    const auto rows = input.size(0);
    const auto cols = input.size(1);
    auto output = torch::empty({rows, cols}, input.options());
    const float* src = input.data_ptr<float>();
    float* dst = output.data_ptr<float>();

    #pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; ++r) {
        const float* row = src + r * cols;
        float* out = dst + r * cols;
        float peak = -std::numeric_limits<float>::infinity();
        for (int64_t c = 0; c < cols; ++c) peak = std::max(peak, row[c]);
        float total = 0.0f;
        for (int64_t c = 0; c < cols; ++c) {
            out[c] = std::exp(row[c] - peak);
            total += out[c];
        }
        const float inverse = 1.0f / total;
        #pragma omp simd
        for (int64_t c = 0; c < cols; ++c) out[c] *= inverse;
    }
    return output;
}
"""

softmax = load_inline(
    name="softmax_openmp",
    cpp_sources=softmax_source,
    functions=["softmax_rows"],
    extra_cflags=["-O3 -fopenmp -march=native"],
    extra_ldflags=["-lgomp"],
)


def check():
    x = torch.randn(37, 129)
    return [(softmax.softmax_rows(x), torch.softmax(x, 1))]
