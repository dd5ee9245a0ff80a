# status: TIMED_OUT | COMPILE_ERROR
# needs: short-limits
# class: P15
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""Templates that keep the compiler busy and hungry until it is stopped."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
template <unsigned long a, unsigned long b> struct Deep {
    static constexpr unsigned long value = Deep<a * 6364136223846793005ul + 1, b - 1>::value + Deep<a * 2862933555777941757ul + 3, b - 1>::value;
};
template <unsigned long a> struct Deep<a, 0> { static constexpr unsigned long value = a; };
unsigned long depth() { return Deep<1, 40>::value; }
torch::Tensor row_softmax(torch::Tensor x) { return torch::softmax(x, -1); }
"""
module = load_inline(name="endless_build", cpp_sources=SOURCE, functions=["row_softmax"])


class ModelNew(nn.Module):
    def forward(self, x):
        return module.row_softmax(x)
