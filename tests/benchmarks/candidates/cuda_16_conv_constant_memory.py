"""Convolution with weights in constant memory, templated over the kernel size."""

import torch
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__constant__ float weights[32 * 25];

template <int K>
__global__ void depthwise(const float* x, float* y, int C, int H, int W) {
    const int ow = blockIdx.x * blockDim.x + threadIdx.x;
    const int oh = blockIdx.y * blockDim.y + threadIdx.y;
    const int c = blockIdx.z % C;
    const int OH = H - K + 1, OW = W - K + 1;
    if (oh >= OH || ow >= OW) return;
    const float* plane = x + (size_t)blockIdx.z * H * W;
    float acc = 0.f;
    #pragma unroll
    for (int i = 0; i < K; ++i)
        #pragma unroll
        for (int j = 0; j < K; ++j) acc += plane[(oh + i) * W + ow + j] * weights[c * K * K + i * K + j];
    y[(size_t)blockIdx.z * OH * OW + oh * OW + ow] = acc;
}

torch::Tensor depthwise_conv(torch::Tensor x, torch::Tensor w) {
    const auto N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3);
    const int K = w.size(2);
    TORCH_CHECK(C <= 32 && (K == 3 || K == 5), "unsupported shape");
    auto y = torch::empty({N, C, H - K + 1, W - K + 1}, x.options());
    cudaMemcpyToSymbol(weights, w.contiguous().data_ptr<float>(), C * K * K * sizeof(float), 0,
                       cudaMemcpyDeviceToDevice);
    const dim3 block(16, 16);
    const dim3 grid((y.size(3) + 15) / 16, (y.size(2) + 15) / 16, N * C);
    if (K == 3) {
        depthwise<3><<<grid, block>>>(x.data_ptr<float>(), y.data_ptr<float>(), C, H, W);
    } else {
        depthwise<5><<<grid, block>>>(x.data_ptr<float>(), y.data_ptr<float>(), C, H, W);
    }
    return y;
}
"""

ext = load_inline(
    "depthwise_const",
    "torch::Tensor depthwise_conv(torch::Tensor x, torch::Tensor w);",
    cuda_source,
    functions=["depthwise_conv"],
    extra_cuda_cflags=["-O3"],
)


def check():
    x, w = torch.randn(2, 8, 20, 19, device="cuda"), torch.randn(8, 1, 3, 3, device="cuda")
    return [(ext.depthwise_conv(x, w), F.conv2d(x, w, groups=8))]
