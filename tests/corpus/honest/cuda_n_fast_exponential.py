# status: PASSED
# class: N3
# problem: level1/09_softmax
# shapes: small
# backend: cuda
"""The hardware exponential: a few units in the last place, well within what float32 softmax may err."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <cfloat>
__global__ void softmax(const float* x, float* out, int columns) {
    __shared__ float shared[32];
    const float* row = x + (long)blockIdx.x * columns;
    float top = -FLT_MAX, sum = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) top = fmaxf(top, row[i]);
    for (int o = 16; o; o /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, o));
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = top;
    __syncthreads();
    for (int w = 0; w < blockDim.x / 32; ++w) top = fmaxf(top, shared[w]);
    __syncthreads();
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += __expf(row[i] - top);
    for (int o = 16; o; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int w = 0; w < blockDim.x / 32; ++w) sum += shared[w];
    for (int i = threadIdx.x; i < columns; i += blockDim.x) out[(long)blockIdx.x * columns + i] = __expf(row[i] - top) / sum;
}
torch::Tensor run(torch::Tensor x) {
    auto out = torch::empty_like(x);
    softmax<<<x.size(0), 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.size(1));
    return out;
}
"""
module = load_inline(
    name="fast_exponential", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=SOURCE, functions=["run"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.run(x)
