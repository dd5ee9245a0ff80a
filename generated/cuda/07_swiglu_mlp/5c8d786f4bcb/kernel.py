import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <algorithm>

__device__ __forceinline__ float gated(float gate, float up) { return gate / (1.0f + expf(-gate)) * up; }

template <class T>
__global__ void gate_rows(const T* __restrict__ both, T* __restrict__ out, int rows, int width);

template <>
__global__ void gate_rows<float4>(const float4* __restrict__ both, float4* __restrict__ out, int rows, int width) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= width) return;
    for (int row = blockIdx.y; row < rows; row += gridDim.y) {
        const float4 g = both[static_cast<size_t>(row) * 2 * width + column];
        const float4 u = both[static_cast<size_t>(row) * 2 * width + width + column];
        out[static_cast<size_t>(row) * width + column] =
            make_float4(gated(g.x, u.x), gated(g.y, u.y), gated(g.z, u.z), gated(g.w, u.w));
    }
}

template <>
__global__ void gate_rows<float>(const float* __restrict__ both, float* __restrict__ out, int rows, int width) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= width) return;
    for (int row = blockIdx.y; row < rows; row += gridDim.y)
        out[static_cast<size_t>(row) * width + column] = gated(both[static_cast<size_t>(row) * 2 * width + column],
                                                               both[static_cast<size_t>(row) * 2 * width + width + column]);
}

torch::Tensor swiglu(torch::Tensor x, torch::Tensor gate_up, torch::Tensor down) {
    auto both = torch::matmul(x, gate_up.t());
    const int rows = both.size(0), width = both.size(1) / 2;
    auto product = torch::empty({rows, width}, both.options());
    if (width % 4 == 0) {
        const dim3 grid((width / 4 + 255) / 256, std::min(rows, 2048));
        gate_rows<float4><<<grid, 256>>>(reinterpret_cast<const float4*>(both.data_ptr<float>()),
                                         reinterpret_cast<float4*>(product.data_ptr<float>()), rows, width / 4);
    } else {
        const dim3 grid((width + 255) / 256, std::min(rows, 2048));
        gate_rows<float><<<grid, 256>>>(both.data_ptr<float>(), product.data_ptr<float>(), rows, width);
    }
    TORCH_CHECK(cudaGetLastError() == cudaSuccess, "launch failed");
    return torch::matmul(product, down.t());
}
"""

module = load_inline(
    name="fused_swiglu",
    cpp_sources="torch::Tensor swiglu(torch::Tensor x, torch::Tensor gate_up, torch::Tensor down);",
    cuda_sources=cuda_source,
    functions=["swiglu"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, features: int, hidden: int):
        super().__init__()
        self.gate = nn.Parameter(torch.randn(hidden, features) / features**0.5)
        self.up = nn.Parameter(torch.randn(hidden, features) / features**0.5)
        self.down = nn.Parameter(torch.randn(features, hidden) / hidden**0.5)
        self.joined = None
        self.joined_from = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = (self.gate.data_ptr(), self.gate._version, self.up.data_ptr(), self.up._version)
        with torch.no_grad():
            if self.joined_from != state:
                self.joined, self.joined_from = torch.cat((self.gate, self.up)), state
            return module.swiglu(x, self.joined, self.down)
