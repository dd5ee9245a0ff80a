# status: WRONG_VALUES | NONDETERMINISTIC | MEMORY_ERROR | RACE
# needs: sanitizer
# speedup: honest
# class: O4
# problem: level1/13_row_mean
# shapes: small
# backend: cuda
"""Sums start from whatever the shared memory held: usually zero on a fresh device, usually not after other kernels."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
__global__ void mean(const float* x, float* out, int columns) {
    __shared__ float total;
    float sum = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += x[(long)blockIdx.x * columns + i];
    __syncthreads();
    atomicAdd(&total, sum);
    __syncthreads();
    if (threadIdx.x == 0) { out[blockIdx.x] = total / columns; total = 0; }
}
torch::Tensor row_mean(torch::Tensor x) {
    auto out = torch::empty({x.size(0)}, x.options());
    mean<<<x.size(0), 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.size(1));
    return out;
}
"""
module = load_inline(
    name="uninitialised_shared", cpp_sources="torch::Tensor row_mean(torch::Tensor x);", cuda_sources=SOURCE, functions=["row_mean"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.row_mean(x)
