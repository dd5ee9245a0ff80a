# status: PASSED
# speedup: honest
# track: library
# class: S2
# problem: level1/01_square_matmul
# shapes: small
# backend: cuda
"""One line of C++ around cuBLAS."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

module = load_inline(
    name="library_wrapper",
    cpp_sources="#include <torch/extension.h>\ntorch::Tensor matmul(torch::Tensor a, torch::Tensor b) { return torch::mm(a, b); }",
    functions=["matmul"],
)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return module.matmul(a, b)
