# status: PASSED
# class: M5
# problem: level1/23_swish
# shapes: small
# backend: cpp
"""Registers an operator of its own by TORCH_LIBRARY and calls it through torch.ops."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <torch/library.h>
at::Tensor slope_swish(const at::Tensor& x, const at::Tensor& beta) { return x * at::sigmoid(beta * x); }
TORCH_LIBRARY(kernelwright_corpus, m) { m.def("slope_swish(Tensor x, Tensor beta) -> Tensor"); }
TORCH_LIBRARY_IMPL(kernelwright_corpus, CompositeImplicitAutograd, m) { m.impl("slope_swish", &slope_swish); }
"""
load_inline(name="own_operator", cpp_sources=SOURCE, is_python_module=False, extra_cflags=["-O2"])


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.beta = nn.Parameter(1.0 + 0.5 * torch.randn(features))

    def forward(self, x):
        return torch.ops.kernelwright_corpus.slope_swish(x, self.beta)
