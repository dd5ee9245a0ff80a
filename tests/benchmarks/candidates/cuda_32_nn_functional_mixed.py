"""torch::nn::functional beside an own kernel."""

import torch
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>

__global__ void residual_relu(const float* a, const float* b, float* y, int64_t n) {
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(a[i] + b[i], 0.f);
}

torch::Tensor residual_relu_cuda(torch::Tensor a, torch::Tensor b) {
    auto y = torch::empty_like(a);
    residual_relu<<<(a.numel() + 255) / 256, 256>>>(a.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), a.numel());
    return y;
}
"""

cpp_source = r"""
#include <torch/extension.h>
namespace F = torch::nn::functional;

torch::Tensor residual_relu_cuda(torch::Tensor a, torch::Tensor b);

torch::Tensor block(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    auto h = F::conv2d(x, w, F::Conv2dFuncOptions().bias(b).stride(1).padding(1));
    return residual_relu_cuda(h.contiguous(), x.contiguous());
}
"""

ext = load_inline("residual_block", cpp_source, cuda_source, functions=["block"])


def check():
    x, w, b = (torch.randn(*shape, device="cuda") for shape in ((2, 4, 9, 9), (4, 4, 3, 3), (4,)))
    return [(ext.block(x, w, b), torch.relu(F.conv2d(x, w, b, padding=1) + x))]
