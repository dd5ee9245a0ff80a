# status: PASSED
# class: N1 O13
# problem: level1/01_square_matmul
# shapes: small
# backend: cpp
"""The plainest product there is: one float32 sum per output, terms in order. Slow and right."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <vector>
torch::Tensor plain_matmul(torch::Tensor a, torch::Tensor b) {
    a = a.contiguous();
    b = b.contiguous();
    const int64_t m = a.size(0), depth = a.size(1), n = b.size(1);
    auto c = torch::zeros({m, n}, a.options());
    const float *pa = a.data_ptr<float>(), *pb = b.data_ptr<float>();
    float* pc = c.data_ptr<float>();
    for (int64_t i = 0; i < m; ++i)
        for (int64_t k = 0; k < depth; ++k)
            for (int64_t j = 0; j < n; ++j) pc[i * n + j] += pa[i * depth + k] * pb[k * n + j];
    return c;
}
"""
module = load_inline(name="plain_matmul", cpp_sources=SOURCE, functions={"plain_matmul": "c = a b"}, extra_cflags=["-O3"])


class ModelNew(nn.Module):
    def forward(self, a, b):
        return module.plain_matmul(a, b)
