"""Several functions with docstrings, one returning a tuple."""

import torch
from torch.utils.cpp_extension import load_inline

source = """
#include <tuple>

std::tuple<torch::Tensor, torch::Tensor> moments(const torch::Tensor& x) {
    auto input = x.contiguous();
    auto rows = input.size(0);
    auto cols = input.size(1);
    auto mean = torch::empty({rows}, input.options());
    auto var = torch::empty({rows}, input.options());
    const float* p = input.data_ptr<float>();
    for (int64_t i = 0; i < rows; i++) {
        double s = 0, q = 0;
        for (int64_t j = 0; j < cols; j++) {
            s += p[i * cols + j];
            q += (double)p[i * cols + j] * p[i * cols + j];
        }
        mean[i] = s / cols;
        var[i] = q / cols - (s / cols) * (s / cols);
    }
    return std::make_tuple(mean, var);
}

torch::Tensor normalize(torch::Tensor x, torch::Tensor mean, torch::Tensor var, double eps) {
    return (x - mean.unsqueeze(1)) / torch::sqrt(var.unsqueeze(1) + eps);
}
"""

ext = load_inline(
    name="moments_ext",
    cpp_sources=source,
    functions={"moments": "row means and variances", "normalize": "standardise rows"},
    extra_cflags=["-O2"],
)


def check():
    x = torch.randn(12, 40)
    mean, var = ext.moments(x)
    expected = torch.var_mean(x, 1, correction=0)
    y = ext.normalize(x, mean, var, 1e-5)
    return [(var, expected[0]), (mean, expected[1]), (y, torch.nn.functional.layer_norm(x, (40,)))]
