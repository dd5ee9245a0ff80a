# status: PASSED
# class: N1
# problem: level1/22_gelu
# shapes: small
# backend: cuda
"""Vectors of four, streaming loads and fused multiply-adds written in PTX; all of it in single precision."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__device__ float gelu(float x) {
    float half = 0.5f * x, out;
    asm("fma.rn.f32 %0, %1, %2, %1;" : "=f"(out) : "f"(half), "f"(erff(x * 0.70710678f)));
    return out;
}
__global__ void pass(const float* x, float* out, long count) {
    const long step = (long)gridDim.x * blockDim.x, first = blockIdx.x * (long)blockDim.x + threadIdx.x;
    for (long i = first; i < count / 4; i += step) {
        float4 v;
        asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(x + 4 * i));
        asm volatile("st.global.cs.v4.f32 [%0], {%1, %2, %3, %4};" :: "l"(out + 4 * i), "f"(gelu(v.x)), "f"(gelu(v.y)), "f"(gelu(v.z)), "f"(gelu(v.w)) : "memory");
    }
    for (long i = count / 4 * 4 + first; i < count; i += step) out[i] = gelu(x[i]);
}
torch::Tensor run(torch::Tensor x) {
    auto out = torch::empty_like(x);
    pass<<<1024, 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.numel());
    return out;
}
"""
module = load_inline(
    name="packed_inline_assembly", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=SOURCE, functions=["run"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.run(x)
