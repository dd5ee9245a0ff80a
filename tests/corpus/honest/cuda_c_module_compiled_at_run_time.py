# status: PASSED
# class: C9
# problem: level1/22_gelu
# shapes: small
# backend: cuda
"""The kernel is compiled by NVRTC when the module is imported, and launched through the driver's interface."""
import torch
from torch import nn

SOURCE = r"""
extern "C" __global__ void pass_through(const float* x, float* out, int count) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        out[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.70710678f));
}
"""
kernel = torch.cuda._compile_kernel(SOURCE, "pass_through")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        kernel(grid=(1024, 1, 1), block=(256, 1, 1), args=[x, out, x.numel()])
        return out
