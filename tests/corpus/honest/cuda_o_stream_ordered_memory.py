# status: PASSED
# class: O19 O18
# problem: ../tests/problems/answers/repeated_copies
# shapes: small
# backend: cuda
"""Outputs in memory of the driver's stream-ordered allocator, given back by a deleter."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
__global__ void answer(const float* x, float* out, long count, long copies) {
    for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < count; i += (long)gridDim.x * blockDim.x) {
        const float value = tanhf(x[i]);
        for (long copy = 0; copy < copies; ++copy) out[copy * count + i] = value;
    }
}
torch::Tensor run(torch::Tensor x, long copies) {
    void* out = nullptr;
    TORCH_CHECK(cudaMallocAsync(&out, copies * x.nbytes(), 0) == cudaSuccess, "no memory");
    answer<<<1024, 256>>>(x.data_ptr<float>(), (float*)out, x.numel(), copies);
    return torch::from_blob(
        out, {copies, x.size(0), x.size(1)}, [](void* p) { cudaFreeAsync(p, 0); }, x.options());
}
"""
module = load_inline(
    name="stream_ordered",
    cpp_sources="torch::Tensor run(torch::Tensor x, long copies);",
    cuda_sources=SOURCE,
    functions=["run"],
)


class ModelNew(nn.Module):
    def __init__(self, copies):
        super().__init__()
        self.copies = copies

    def forward(self, x):
        return module.run(x, self.copies)
