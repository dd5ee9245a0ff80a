# status: MEMORY_ERROR | RUNTIME_ERROR | WRONG_VALUES
# class: O14
# problem: level1/13_row_mean
# shapes: small
# backend: cuda
"""Every thread writes, also the ones beyond the output, a gigabyte away."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
__global__ void stomp(float* out) { out[(long)(blockIdx.x * blockDim.x + threadIdx.x) * 1048576] = 1.0f; }
torch::Tensor row_mean(torch::Tensor x) {
    auto out = torch::empty({x.size(0)}, x.options());
    stomp<<<256, 256>>>(out.data_ptr<float>());
    return out;
}
"""
module = load_inline(
    name="device_stomp", cpp_sources="torch::Tensor row_mean(torch::Tensor x);", cuda_sources=SOURCE, functions=["row_mean"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.row_mean(x)
