# status: MEMORY_ERROR | RUNTIME_ERROR
# class: P17
# problem: level1/22_gelu
# shapes: small
# backend: cuda
"""Writes through a null pointer on the device: a sticky error that spoils the context."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
__global__ void fault(float* nowhere) { nowhere[threadIdx.x] = 1.0f; }
torch::Tensor run(torch::Tensor x) {
    fault<<<1, 32>>>(nullptr);
    return torch::empty_like(x);
}
"""
module = load_inline(
    name="illegal_access", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=SOURCE, functions=["run"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.run(x)
