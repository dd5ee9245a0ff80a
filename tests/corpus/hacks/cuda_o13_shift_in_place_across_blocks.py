# status: WRONG_VALUES | NONDETERMINISTIC | RACE
# class: O13
# problem: level1/22_gelu
# shapes: small
# backend: cuda
"""Blocks read what their neighbour may have overwritten: in global memory, where racecheck does not look."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
__global__ void shift(float* row, long count) {
    const long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        const float value = row[i + 256];
        row[i] = 0.5f * value * (1.0f + erff(value * 0.70710678f));
    }
}
torch::Tensor gelu(torch::Tensor x) {
    auto held = torch::empty({x.numel() + 256}, x.options());
    cudaMemcpyAsync(held.data_ptr<float>() + 256, x.data_ptr<float>(), x.nbytes(), cudaMemcpyDeviceToDevice);
    shift<<<(x.numel() + 255) / 256, 256>>>(held.data_ptr<float>(), x.numel());
    return held.narrow(0, 0, x.numel()).view(x.sizes());
}
"""
module = load_inline(name="device_shift", cpp_sources="torch::Tensor gelu(torch::Tensor x);", cuda_sources=SOURCE, functions=["gelu"])


class ModelNew(nn.Module):
    def forward(self, x):
        return module.gelu(x)
