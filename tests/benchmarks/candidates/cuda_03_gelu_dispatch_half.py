"""AT_DISPATCH_FLOATING_TYPES_AND_HALF over a templated kernel."""

import torch
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
#include <torch/extension.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include <math.h>

template <typename scalar_t>
__global__ void gelu_kernel(const scalar_t* __restrict__ input, scalar_t* __restrict__ output, size_t n) {
    const size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) {
        const float x = static_cast<float>(input[i]);
        output[i] = static_cast<scalar_t>(0.5f * x * (1.0f + erff(x * 0.70710678f)));
    }
}

torch::Tensor gelu_forward(torch::Tensor input) {
    TORCH_CHECK(input.is_cuda(), "input must be a CUDA tensor");
    auto output = torch::empty_like(input);
    const size_t n = input.numel();
    const int threads = 256;
    const int blocks = (n + threads - 1) / threads;
    AT_DISPATCH_FLOATING_TYPES_AND_HALF(input.scalar_type(), "gelu_forward", ([&] {
        gelu_kernel<scalar_t><<<blocks, threads>>>(input.data_ptr<scalar_t>(), output.data_ptr<scalar_t>(), n);
    }));
    return output;
}
"""

module = load_inline(
    name="gelu_dispatch_half",
    cpp_sources="torch::Tensor gelu_forward(torch::Tensor input);",
    cuda_sources=cuda_src,
    functions=["gelu_forward"],
    extra_cuda_cflags=["-O3", "--use_fast_math"],
)


def check():
    x = torch.randn(1000, device="cuda")
    return [(module.gelu_forward(x), F.gelu(x)), (module.gelu_forward(x.half()).float(), F.gelu(x.half()).float())]
