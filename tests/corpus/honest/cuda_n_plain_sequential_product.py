# status: PASSED
# class: N1
# problem: level1/01_square_matmul
# shapes: small
# backend: cuda
"""One thread an output, terms in order: the naive product is honest float32."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
__global__ void plain(const float* a, const float* b, float* c, int m, int n, int depth) {
    const int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m || column >= n) return;
    float sum = 0;
    for (int k = 0; k < depth; ++k) sum += a[(long)row * depth + k] * b[(long)k * n + column];
    c[(long)row * n + column] = sum;
}
torch::Tensor matmul(torch::Tensor a, torch::Tensor b) {
    a = a.contiguous();
    b = b.contiguous();
    const int m = a.size(0), depth = a.size(1), n = b.size(1);
    auto c = torch::empty({m, n}, a.options());
    plain<<<dim3((n + 31) / 32, (m + 7) / 8), dim3(32, 8)>>>(a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), m, n, depth);
    return c;
}
"""
module = load_inline(
    name="plain_product", cpp_sources="torch::Tensor matmul(torch::Tensor a, torch::Tensor b);", cuda_sources=SOURCE, functions=["matmul"]
)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return module.matmul(a, b)
