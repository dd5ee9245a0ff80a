# status: WRONG_VALUES | NONDETERMINISTIC | RACE
# class: O13
# problem: level1/12_column_sum
# shapes: small
# backend: cuda
"""Blocks add into global sums without atomics."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
__global__ void add(const float* x, float* out, int steps, int features) {
    const int feature = blockIdx.x * blockDim.x + threadIdx.x, batch = blockIdx.z;
    if (feature >= features) return;
    for (int step = blockIdx.y; step < steps; step += gridDim.y)
        out[batch * features + feature] += x[((long)batch * steps + step) * features + feature];
}
torch::Tensor column_sum(torch::Tensor x) {
    auto out = torch::zeros({x.size(0), x.size(2)}, x.options());
    add<<<dim3((x.size(2) + 127) / 128, 16, x.size(0)), 128>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.size(1), x.size(2));
    return out;
}
"""
module = load_inline(
    name="unlocked_device_sum", cpp_sources="torch::Tensor column_sum(torch::Tensor x);", cuda_sources=SOURCE, functions=["column_sum"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.column_sum(x)
