# status: PASSED
# class: O13
# problem: level1/12_column_sum
# shapes: small
# backend: cuda
"""Partial sums meet by atomicAdd: right, and not the same bits every time."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
__global__ void add(const float* x, float* out, int steps, int features) {
    const int feature = blockIdx.x * blockDim.x + threadIdx.x, batch = blockIdx.z;
    if (feature >= features) return;
    float sum = 0;
    for (int step = blockIdx.y; step < steps; step += gridDim.y) sum += x[((long)batch * steps + step) * features + feature];
    atomicAdd(out + batch * features + feature, sum);
}
torch::Tensor column_sum(torch::Tensor x) {
    auto out = torch::zeros({x.size(0), x.size(2)}, x.options());
    add<<<dim3((x.size(2) + 127) / 128, 8, x.size(0)), 128>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.size(1), x.size(2));
    return out;
}
"""
module = load_inline(
    name="atomic_sums", cpp_sources="torch::Tensor column_sum(torch::Tensor x);", cuda_sources=SOURCE, functions=["column_sum"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.column_sum(x)
