"""Packed accessors as kernel arguments."""

import torch
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <vector>

template <typename scalar_t>
__global__ void lerp_kernel(
    const torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> a,
    const torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> b,
    torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> out,
    const scalar_t t) {
    const int n = blockIdx.y;
    const int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c < a.size(1)) {
        out[n][c] = a[n][c] + t * (b[n][c] - a[n][c]);
    }
}

std::vector<torch::Tensor> lerp_cuda(torch::Tensor a, torch::Tensor b, double t) {
    auto out = torch::zeros_like(a);
    const int threads = 128;
    const dim3 blocks((a.size(1) + threads - 1) / threads, a.size(0));
    AT_DISPATCH_FLOATING_TYPES(a.scalar_type(), "lerp_cuda", ([&] {
        lerp_kernel<scalar_t><<<blocks, threads>>>(
            a.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(),
            b.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(),
            out.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(),
            static_cast<scalar_t>(t));
    }));
    return {out};
}
"""

ext = load_inline(
    "lerp_accessor",
    "#include <vector>\nstd::vector<torch::Tensor> lerp_cuda(torch::Tensor a, torch::Tensor b, double t);",
    cuda_source,
    functions=["lerp_cuda"],
)


def check():
    a, b = torch.randn(5, 301, device="cuda"), torch.randn(5, 301, device="cuda")
    return [(ext.lerp_cuda(a, b, 0.3)[0], torch.lerp(a, b, 0.3))]
