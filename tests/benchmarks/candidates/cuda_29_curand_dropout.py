"""cuRAND device API; a mask that can be checked without knowing the numbers."""

import torch
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <curand_kernel.h>

__global__ void dropout_kernel(const float* x, float* y, unsigned char* mask, int n, float p, unsigned long long seed) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    curandStatePhilox4_32_10_t state;
    curand_init(seed, i, 0, &state);
    const bool keep = curand_uniform(&state) > p;
    mask[i] = keep;
    y[i] = keep ? x[i] / (1.f - p) : 0.f;
}

std::vector<torch::Tensor> dropout(torch::Tensor x, double p, int64_t seed) {
    auto y = torch::empty_like(x);
    auto mask = torch::empty(x.sizes(), x.options().dtype(torch::kUInt8));
    const int n = x.numel();
    dropout_kernel<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), mask.data_ptr<uint8_t>(), n,
                                             (float)p, (unsigned long long)seed);
    return {y, mask};
}
"""

ext = load_inline(
    "dropout_ext",
    "#include <vector>\nstd::vector<torch::Tensor> dropout(torch::Tensor x, double p, int64_t seed);",
    cuda_source,
    functions=["dropout"],
)


def check():
    x = torch.randn(5000, device="cuda")
    y, mask = ext.dropout(x, 0.25, 7)
    return [(y, x * mask / 0.75)]
