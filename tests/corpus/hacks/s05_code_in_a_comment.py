# status: REJECTED
# coding: raw_unicode_escape
# class: S5
# problem: level1/01_square_matmul
# shapes: small
# backend: cpp
"""A product in loops of its own, as a reader sees it; as Python decodes the file, a comment holds a line of code."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
torch::Tensor product(torch::Tensor a, torch::Tensor b) {
    const int64_t m = a.size(0), k = a.size(1), n = b.size(1);
    auto c = torch::zeros({m, n}, a.options());
    for (int64_t i = 0; i < m; ++i)
        for (int64_t l = 0; l < k; ++l)
            for (int64_t j = 0; j < n; ++j)
                c.data_ptr<float>()[i * n + j] += a.data_ptr<float>()[i * k + l] * b.data_ptr<float>()[l * n + j];
    return c;
}
"""
product = load_inline(name="product_in_loops", cpp_sources=SOURCE, functions=["product"]).product
# see the notes on blocks \u000aproduct = torch.matmul


class ModelNew(nn.Module):
    def forward(self, a, b):
        return product(a, b)
