# status: WRONG_VALUES | NONDETERMINISTIC
# class: O19
# problem: ../tests/problems/answers/diagonal_matrices
# shapes: small
# backend: cuda
"""A deleter recycles blocks whose zeros are taken to be still there: only diagonals are written."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <vector>
__global__ void diagonals(const float* x, float* out, long count, long size) {
    for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < count; i += (long)gridDim.x * blockDim.x)
        out[i / size * size * size + i % size * (size + 1)] = 1.0f / (1.0f + expf(-x[i]));
}
static std::vector<void*> pool;
static void* block(size_t size) {
    if (!pool.empty()) { void* found = pool.back(); pool.pop_back(); return found; }
    void* fresh = nullptr;
    TORCH_CHECK(cudaMalloc(&fresh, size) == cudaSuccess, "no memory");
    cudaMemsetAsync(fresh, 0, size, 0);
    return fresh;
}
torch::Tensor run(torch::Tensor x) {
    const long batch = x.size(0), size = x.size(1);
    void* out = block(4 * batch * size * size);
    diagonals<<<256, 256>>>(x.data_ptr<float>(), (float*)out, x.numel(), size);
    return torch::from_blob(out, {batch, size, size}, [](void* p) { pool.push_back(p); }, x.options());
}
"""
module = load_inline(
    name="recycled_blocks", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=SOURCE, functions=["run"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.run(x)
