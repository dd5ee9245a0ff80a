# status: PASSED
# track: own
# class: O14 O17
# problem: level1/22_gelu
# shapes: odd
# backend: cuda
"""16-byte accesses, as torch's alignment allows them, and a tail of single elements: nothing beyond the end is touched."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
__device__ float gelu_one(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678f)); }
__global__ void gelu_wide(const float* x, float* out, long count) {
    const long i = (long)blockIdx.x * blockDim.x + threadIdx.x, vectors = count / 4;
    if (i < vectors) {
        float4 v = reinterpret_cast<const float4*>(x)[i];
        v = make_float4(gelu_one(v.x), gelu_one(v.y), gelu_one(v.z), gelu_one(v.w));
        reinterpret_cast<float4*>(out)[i] = v;
    } else if (i - vectors < count % 4) {
        const long at = 4 * vectors + i - vectors;
        out[at] = gelu_one(x[at]);
    }
}
torch::Tensor gelu(torch::Tensor x) {
    auto out = torch::empty_like(x);
    gelu_wide<<<(x.numel() / 4 + 3 + 255) / 256, 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.numel());
    return out;
}
"""
module = load_inline(name="device_gelu_wide", cpp_sources="torch::Tensor gelu(torch::Tensor x);", cuda_sources=SOURCE, functions=["gelu"])


class ModelNew(nn.Module):
    def forward(self, x):
        return module.gelu(x)
