"""A raw-pointer launcher in the .cu without torch headers; torch only in C++."""

import torch
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <cuda_runtime.h>
#include <cstdint>

__global__ void hinge_kernel(const float* p, const float* t, float* out, int64_t n) {
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < n) out[i] = fmaxf(0.f, 1.f - p[i] * t[i]);
}

extern "C" void launch_hinge(const float* p, const float* t, float* out, int64_t n, cudaStream_t stream) {
    hinge_kernel<<<(n + 255) / 256, 256, 0, stream>>>(p, t, out, n);
}
"""

cpp_source = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>

extern "C" void launch_hinge(const float* p, const float* t, float* out, int64_t n, cudaStream_t stream);

torch::Tensor hinge(torch::Tensor p, torch::Tensor t) {
    auto out = torch::empty_like(p);
    launch_hinge(p.data_ptr<float>(), t.data_ptr<float>(), out.data_ptr<float>(), p.numel(),
                 c10::cuda::getCurrentCUDAStream().stream());
    return out.mean();
}
"""

ext = load_inline(
    name="hinge_launcher",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["hinge"],
    no_implicit_headers=True,
    extra_cuda_cflags=["-O3"],
)


def check():
    p = torch.randn(4000, device="cuda")
    t = torch.sign(torch.randn(4000, device="cuda"))
    return [(ext.hinge(p, t), torch.clamp(1 - p * t, min=0).mean())]
