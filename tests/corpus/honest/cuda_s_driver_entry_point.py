# status: PASSED
# track: own
# class: S2
# problem: level1/22_gelu
# shapes: small
# backend: cuda
"""Asks the runtime for a function of the driver, as kernels with tensor maps must, and launches its own kernel."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda.h>
#include <cuda_runtime.h>
__global__ void gelu_plain(const float* x, float* out, long count, int multiprocessors) {
    for (long i = (long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (long)gridDim.x * blockDim.x)
        out[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.70710678f));
}
static int multiprocessors() {
    using Ask = CUresult (*)(int*, CUdevice_attribute, CUdevice);
    void* found = nullptr;
    cudaDriverEntryPointQueryResult answer;
    cudaGetDriverEntryPointByVersion("cuDeviceGetAttribute", &found, 12000, cudaEnableDefault, &answer);
    int count = 0;
    TORCH_CHECK(found && reinterpret_cast<Ask>(found)(&count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0) == CUDA_SUCCESS);
    return count;
}
torch::Tensor gelu(torch::Tensor x) {
    static const int cores = multiprocessors();
    auto out = torch::empty_like(x);
    gelu_plain<<<cores * 8, 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.numel(), cores);
    return out;
}
"""
module = load_inline(name="device_gelu_entry", cpp_sources="torch::Tensor gelu(torch::Tensor x);", cuda_sources=SOURCE, functions=["gelu"])


class ModelNew(nn.Module):
    def forward(self, x):
        return module.gelu(x)
