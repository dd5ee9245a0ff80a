# status: TIMED_OUT
# class: P6
# problem: level1/22_gelu
# shapes: small
# backend: cuda
"""A kernel that never ends."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
__global__ void spin(volatile float* x) { while (x[0] == x[0]) {} }
torch::Tensor run(torch::Tensor x) {
    auto out = torch::zeros_like(x);
    spin<<<132, 256>>>(out.data_ptr<float>());
    return out;
}
"""
module = load_inline(
    name="endless_kernel", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=SOURCE, functions=["run"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.run(x)
