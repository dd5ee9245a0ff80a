# status: RUNTIME_ERROR | MEMORY_ERROR
# class: P17
# problem: level1/22_gelu
# shapes: small
# backend: cuda
"""Traps on the device."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
__global__ void fault() { asm volatile("trap;"); }
torch::Tensor run(torch::Tensor x) {
    fault<<<1, 1>>>();
    return torch::empty_like(x);
}
"""
module = load_inline(
    name="trap", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=SOURCE, functions=["run"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.run(x)
