"""at::vec::Vectorized, ATen's own SIMD wrapper."""

import torch
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/extension.h>
#include <ATen/cpu/vec/vec.h>

torch::Tensor scale_shift(torch::Tensor x, double a, double b) {
    using Vec = at::vec::Vectorized<float>;
    auto out = torch::empty_like(x);
    const float* p = x.data_ptr<float>();
    float* q = out.data_ptr<float>();
    const Vec va(static_cast<float>(a)), vb(static_cast<float>(b));
    int64_t i = 0;
    for (; i + Vec::size() <= x.numel(); i += Vec::size()) {
        (Vec::loadu(p + i) * va + vb).store(q + i);
    }
    for (; i < x.numel(); ++i) q[i] = p[i] * static_cast<float>(a) + static_cast<float>(b);
    return out;
}
"""

ext = load_inline("vectorized_aten", source, functions=["scale_shift"], extra_cflags=["-O3", "-march=native"])


def check():
    x = torch.randn(1001)
    return [(ext.scale_shift(x, 2.0, -1.0), x * 2 - 1)]
