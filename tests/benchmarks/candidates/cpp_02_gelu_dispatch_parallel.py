"""AT_DISPATCH with at::parallel_for and an input check."""

import torch
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <ATen/Parallel.h>
#include <cmath>

torch::Tensor gelu(torch::Tensor x) {
    TORCH_CHECK(x.device().is_cpu(), "x must be a CPU tensor");
    TORCH_CHECK(x.is_contiguous(), "x must be contiguous, got strides ", x.strides());
    auto y = torch::empty_like(x);
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "gelu", [&] {
        const scalar_t* xp = x.data_ptr<scalar_t>();
        scalar_t* yp = y.data_ptr<scalar_t>();
        at::parallel_for(0, x.numel(), 2048, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
                const scalar_t v = xp[i];
                yp[i] = v * scalar_t(0.5) * (scalar_t(1) + std::erf(v * scalar_t(0.7071067811865476)));
            }
        });
    });
    return y;
}
"""

module = load_inline("gelu_dispatch", [source], functions=["gelu"], extra_cflags=["-O3", "-march=native"])


def check():
    x = torch.randn(100, 333)
    return [(module.gelu(x), F.gelu(x)), (module.gelu(x.double()), F.gelu(x.double()))]
