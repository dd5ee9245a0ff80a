import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <algorithm>

// Keeps NaN, as torch.relu does.
__device__ __forceinline__ float relu(float x) { return x < 0.0f ? 0.0f : x; }

__global__ void multiply_add_quads(const float4* __restrict__ a, const float4* __restrict__ b,
                                   const float4* __restrict__ c, float4* __restrict__ out, int rows, int quads) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= quads) return;
    const float4 s = c[column];
#pragma unroll 4
    for (int row = blockIdx.y; row < rows; row += gridDim.y) {
        const size_t at = static_cast<size_t>(row) * quads + column;
        const float4 x = a[at], y = b[at];
        out[at] = make_float4(relu(x.x * y.x + s.x), relu(x.y * y.y + s.y), relu(x.z * y.z + s.z), relu(x.w * y.w + s.w));
    }
}

__global__ void multiply_add_any(const float* __restrict__ a, const float* __restrict__ b, const float* __restrict__ c,
                                 float* __restrict__ out, size_t count, int columns) {
    for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < count;
         i += static_cast<size_t>(gridDim.x) * blockDim.x)
        out[i] = relu(a[i] * b[i] + c[i % columns]);
}

torch::Tensor multiply_add_relu(torch::Tensor a, torch::Tensor b, torch::Tensor c) {
    TORCH_CHECK(a.sizes() == b.sizes() && a.size(-1) == c.numel(), "shapes do not match");
    a = a.contiguous();
    b = b.contiguous();
    c = c.contiguous();
    auto out = torch::empty_like(a);
    const int columns = c.numel();
    const int rows = a.numel() / columns;
    if (columns % 4 == 0) {
        const int quads = columns / 4;
        const dim3 grid((quads + 255) / 256, std::min(rows, 2048));
        multiply_add_quads<<<grid, 256>>>(reinterpret_cast<const float4*>(a.data_ptr<float>()),
                                          reinterpret_cast<const float4*>(b.data_ptr<float>()),
                                          reinterpret_cast<const float4*>(c.data_ptr<float>()),
                                          reinterpret_cast<float4*>(out.data_ptr<float>()), rows, quads);
    } else {
        multiply_add_any<<<2048, 256>>>(a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(),
                                        out.data_ptr<float>(), a.numel(), columns);
    }
    TORCH_CHECK(cudaGetLastError() == cudaSuccess, "launch failed");
    return out;
}
"""

module = load_inline(
    name="multiply_add_relu",
    cpp_sources="torch::Tensor multiply_add_relu(torch::Tensor a, torch::Tensor b, torch::Tensor c);",
    cuda_sources=cuda_source,
    functions=["multiply_add_relu"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        return module.multiply_add_relu(a, b, c)
