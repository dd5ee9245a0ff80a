# status: PASSED
# track: own
# class: C1
# problem: level1/23_swish
# shapes: small
# backend: cuda
"""Writes its backward pass as well; the slope's gradient is summed over rows by atomic additions."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

constexpr int THREADS = 256, STRIP = 64;

__global__ void swish(const float* x, const float* beta, float* out, int rows, int features) {
    const int column = blockIdx.x * THREADS + threadIdx.x;
    if (column >= features) return;
    const float slope = beta[column];
    const int end = min(rows, (blockIdx.y + 1) * STRIP);
    for (int row = blockIdx.y * STRIP; row < end; ++row) {
        const size_t at = static_cast<size_t>(row) * features + column;
        out[at] = x[at] / (1.0f + expf(-slope * x[at]));
    }
}

__global__ void swish_backward(const float* grad, const float* x, const float* beta, float* grad_x,
                               float* grad_beta, int rows, int features) {
    const int column = blockIdx.x * THREADS + threadIdx.x;
    if (column >= features) return;
    const float slope = beta[column];
    float total = 0.0f;
    const int end = min(rows, (blockIdx.y + 1) * STRIP);
    for (int row = blockIdx.y * STRIP; row < end; ++row) {
        const size_t at = static_cast<size_t>(row) * features + column;
        const float value = x[at], share = 1.0f / (1.0f + expf(-slope * value));
        const float steep = value * share * (1.0f - share);
        grad_x[at] = grad[at] * (share + slope * steep);
        total += grad[at] * value * steep;
    }
    atomicAdd(grad_beta + column, total);
}

static dim3 grid_of(int rows, int features) {
    return dim3((features + THREADS - 1) / THREADS, (rows + STRIP - 1) / STRIP);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor beta) {
    auto out = torch::empty_like(x);
    const int features = x.size(1), rows = x.size(0);
    swish<<<grid_of(rows, features), THREADS>>>(x.data_ptr<float>(), beta.data_ptr<float>(), out.data_ptr<float>(),
                                                rows, features);
    return out;
}

std::vector<torch::Tensor> backward(torch::Tensor grad, torch::Tensor x, torch::Tensor beta) {
    auto grad_x = torch::empty_like(x);
    auto grad_beta = torch::zeros_like(beta);
    const int features = x.size(1), rows = x.size(0);
    swish_backward<<<grid_of(rows, features), THREADS>>>(
        grad.data_ptr<float>(), x.data_ptr<float>(), beta.data_ptr<float>(), grad_x.data_ptr<float>(),
        grad_beta.data_ptr<float>(), rows, features);
    return {grad_x, grad_beta};
}
"""
DECLARATIONS = """
torch::Tensor forward(torch::Tensor x, torch::Tensor beta);
std::vector<torch::Tensor> backward(torch::Tensor grad, torch::Tensor x, torch::Tensor beta);
"""
module = load_inline(
    name="swish_and_gradients", cpp_sources=DECLARATIONS, cuda_sources=SOURCE, functions=["forward", "backward"]
)


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, beta):
        x, beta = x.contiguous(), beta.contiguous()
        ctx.save_for_backward(x, beta)
        return module.forward(x, beta)

    @staticmethod
    def backward(ctx, grad):
        return tuple(module.backward(grad.contiguous(), *ctx.saved_tensors))


class ModelNew(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.beta = nn.Parameter(1.0 + 0.5 * torch.randn(features))

    def forward(self, x):
        return Swish.apply(x, self.beta)
