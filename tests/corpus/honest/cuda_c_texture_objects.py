# status: PASSED
# class: C1
# problem: level1/22_gelu
# shapes: small
# backend: cuda
"""Inputs are read through texture objects, one for each address it has met; a texture holds no values."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <map>
__global__ void pass(cudaTextureObject_t x, float* out, long count) {
    for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < count; i += (long)gridDim.x * blockDim.x) {
        const float v = tex1Dfetch<float>(x, i);
        out[i] = 0.5f * v * (1.0f + erff(v * 0.70710678f));
    }
}
torch::Tensor run(torch::Tensor x) {
    static std::map<std::pair<void*, long>, cudaTextureObject_t> known;
    auto out = torch::empty_like(x);
    auto& texture = known[{x.data_ptr(), x.numel()}];
    if (!texture) {
        cudaResourceDesc memory = {};
        memory.resType = cudaResourceTypeLinear;
        memory.res.linear.devPtr = x.data_ptr();
        memory.res.linear.desc = cudaCreateChannelDesc<float>();
        memory.res.linear.sizeInBytes = x.nbytes();
        cudaTextureDesc reading = {};
        reading.readMode = cudaReadModeElementType;
        TORCH_CHECK(cudaCreateTextureObject(&texture, &memory, &reading, nullptr) == cudaSuccess, "no texture");
    }
    pass<<<1024, 256>>>(texture, out.data_ptr<float>(), x.numel());
    return out;
}
"""
module = load_inline(
    name="texture_objects", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=SOURCE, functions=["run"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.run(x)
