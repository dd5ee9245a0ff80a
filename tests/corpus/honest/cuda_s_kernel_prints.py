# status: PASSED
# class: P1 P19
# problem: level1/22_gelu
# shapes: small
# backend: cuda
"""printf from the device and from the host."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <cstdio>
__global__ void gelu(const float* x, float* out, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) printf("first element %f\n", x[0]);
    if (i < count) out[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.70710678f));
}
torch::Tensor run(torch::Tensor x) {
    std::printf("gelu of %ld\n", (long)x.numel());
    auto out = torch::empty_like(x);
    const int count = x.numel();
    gelu<<<(count + 255) / 256, 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), count);
    return out;
}
"""
module = load_inline(
    name="printing_kernel", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=SOURCE, functions=["run"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.run(x)
