"""half2 arithmetic with the operators switched back on by flags."""

import torch
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_fp16.h>

__global__ void fma_half2(const __half2* a, const __half2* b, __half2* out, __half2 k, int n2) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n2) out[i] = __hfma2(a[i], k, b[i]) + a[i] * b[i];
}

torch::Tensor fused(torch::Tensor a, torch::Tensor b, double k) {
    auto out = torch::empty_like(a);
    const int n2 = a.numel() / 2;
    fma_half2<<<(n2 + 255) / 256, 256>>>(
        (const __half2*)a.data_ptr(), (const __half2*)b.data_ptr(), (__half2*)out.data_ptr(),
        __float2half2_rn((float)k), n2);
    return out;
}
"""

ext = load_inline(
    "half2_ext",
    "torch::Tensor fused(torch::Tensor a, torch::Tensor b, double k);",
    cuda_source,
    functions=["fused"],
    extra_cuda_cflags=[
        "-O3",
        "-U__CUDA_NO_HALF_OPERATORS__",
        "-U__CUDA_NO_HALF_CONVERSIONS__",
        "-U__CUDA_NO_HALF2_OPERATORS__",
    ],
)


def check():
    a, b = torch.randn(512, device="cuda").half(), torch.randn(512, device="cuda").half()
    expected = (a.float() * 0.5 + b.float()) + a.float() * b.float()
    return [(ext.fused(a, b, 0.5).float(), expected.half().float())]
