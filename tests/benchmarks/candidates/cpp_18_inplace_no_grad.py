"""In-place methods, a gradient guard, indexing with Slice and index_put."""

import torch
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/extension.h>
using namespace torch::indexing;

void sgd_step(torch::Tensor param, torch::Tensor grad, torch::Tensor momentum_buffer, double lr, double momentum) {
    torch::NoGradGuard no_grad;
    momentum_buffer.mul_(momentum).add_(grad);
    param.add_(momentum_buffer, -lr);
}

torch::Tensor shift_rows(torch::Tensor x, int64_t by) {
    auto out = torch::zeros_like(x);
    out.index_put_({Slice(by, None), Slice()}, x.index({Slice(None, x.size(0) - by), Slice()}));
    out.slice(0, 0, by).copy_(x.slice(0, x.size(0) - by, x.size(0)));
    return out;
}
"""

ext = load_inline("inplace_ops", source, functions=["sgd_step", "shift_rows"], extra_cflags=["-O2"])


def check():
    p, g, m = torch.randn(10), torch.randn(10), torch.randn(10)
    expected_m = m * 0.9 + g
    expected_p = p - 0.1 * expected_m
    ext.sgd_step(p, g, m, 0.1, 0.9)
    x = torch.randn(6, 4)
    return [(p, expected_p), (m, expected_m), (ext.shift_rows(x, 2), torch.roll(x, 2, 0))]
