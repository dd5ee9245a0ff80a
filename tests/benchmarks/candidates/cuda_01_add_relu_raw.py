"""The commonest CUDA shape: float pointers, one kernel, a declaration in C++."""

import torch
from torch.utils.cpp_extension import load_inline

cuda_source = """
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void add_relu_kernel(const float* x, const float* bias, float* out, int rows, int cols) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < rows * cols) {
        float v = x[idx] + bias[idx % cols];
        out[idx] = v > 0 ? v : 0;
    }
}

torch::Tensor add_relu_cuda(torch::Tensor x, torch::Tensor bias) {
    auto batch_size = x.size(0);
    auto features = x.size(1);
    auto out = torch::empty_like(x);

    const int block_size = 256;
    const int num_elements = batch_size * features;
    const int num_blocks = (num_elements + block_size - 1) / block_size;

    add_relu_kernel<<<num_blocks, block_size>>>(
        x.data_ptr<float>(), bias.data_ptr<float>(), out.data_ptr<float>(), batch_size, features);

    return out;
}
"""

cpp_source = "torch::Tensor add_relu_cuda(torch::Tensor x, torch::Tensor bias);"

add_relu = load_inline(
    name="add_relu",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["add_relu_cuda"],
    verbose=True,
    extra_cflags=[""],
    extra_ldflags=[""],
)


def check():
    x, b = torch.randn(64, 100, device="cuda"), torch.randn(100, device="cuda")
    return [(add_relu.add_relu_cuda(x, b), torch.relu(x + b))]
