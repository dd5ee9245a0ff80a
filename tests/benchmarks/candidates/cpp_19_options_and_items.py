"""TensorOptions built up, sizes as a vector, items, arange and type conversion."""

import torch
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/extension.h>

torch::Tensor histogram(torch::Tensor x, int64_t bins, double low, double high) {
    auto options = torch::TensorOptions().dtype(torch::kInt64).device(torch::kCPU).requires_grad(false);
    torch::Tensor counts = torch::zeros({bins}, options);
    auto values = x.to(torch::kFloat64).contiguous();
    int64_t* c = counts.data_ptr<int64_t>();
    const double* v = values.data_ptr<double>();
    for (int64_t i = 0; i < values.numel(); ++i) {
        if (v[i] < low || v[i] > high) continue;
        int64_t b = static_cast<int64_t>((v[i] - low) / (high - low) * bins);
        c[b < bins ? b : bins - 1] += 1;
    }
    return counts;
}

torch::Tensor pairwise_distance(torch::Tensor x) {
    std::vector<int64_t> shape = x.sizes().vec();
    auto n = shape[0];
    auto norm = x.pow(2).sum(1, true);
    auto dist = norm + norm.t() - 2.0 * x.mm(x.t());
    dist = dist.clamp_min(0.0).sqrt();
    auto eye = torch::arange(n, torch::TensorOptions().dtype(torch::kLong));
    if (dist.max().item<float>() > 1e30f) {
        throw std::runtime_error("overflow");
    }
    return dist.index_select(0, eye);
}
"""

ext = load_inline("options_ext", source, functions=["histogram", "pairwise_distance"], extra_cflags=["-O3"])


def check():
    x = torch.rand(1000)
    y = torch.randn(9, 5, dtype=torch.float64)
    return [
        (ext.histogram(x, 10, 0.0, 1.0).float(), torch.histc(x, 10, 0.0, 1.0)),
        (ext.pairwise_distance(y), torch.cdist(y, y)),
    ]
