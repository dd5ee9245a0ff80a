# status: WRONG_VALUES
# class: N1
# problem: level1/01_square_matmul
# shapes: small
# backend: cpp
"""Operands in two bfloat16 terms, three products: 16 bits, as tensor cores would give at three times the speed."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
std::vector<torch::Tensor> in_two_terms(torch::Tensor x) {
    x = x.contiguous();
    auto high = torch::empty_like(x), low = torch::empty_like(x);
    const int64_t count = x.numel();
    const float* in = x.data_ptr<float>();
    float *first = high.data_ptr<float>(), *second = low.data_ptr<float>();
    for (int64_t i = 0; i < count; ++i) {
        first[i] = float(c10::BFloat16(in[i]));
        second[i] = float(c10::BFloat16(in[i] - first[i]));
    }
    return {high, low};
}
"""
module = load_inline(name="two_terms", cpp_sources=SOURCE, functions={"in_two_terms": "x = high + low"})


class ModelNew(nn.Module):
    def forward(self, a, b):
        high, low = module.in_two_terms(a)
        right, rest = module.in_two_terms(b)
        return high @ right + (high @ rest + low @ right)
