# status: PASSED
# speedup: honest
# track: library | mixed
# class: S2
# problem: level1/01_square_matmul
# shapes: small
# backend: cpp
"""One line of C++ around the library's product."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
torch::Tensor optimised_matmul(torch::Tensor a, torch::Tensor b) { return torch::matmul(a, b); }
"""
module = load_inline(name="wrapper", cpp_sources=SOURCE, functions=["optimised_matmul"], extra_cflags=["-O3"])


class ModelNew(nn.Module):
    def forward(self, a, b):
        return module.optimised_matmul(a, b)
