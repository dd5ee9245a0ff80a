import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

constexpr int THREADS = 256, DEPTH = 6;

__device__ __forceinline__ void put(float4* to, float4 value) { __stcs(to, value); }
__device__ __forceinline__ void put(float* to, float value) { __stcs(to, value); }

// One warp a row; T is float4 or float, width counts T.
template <typename T>
__global__ void __launch_bounds__(THREADS)
lookup(const int64_t* __restrict__ tokens, const T* __restrict__ table, T* __restrict__ out, int64_t rows, int width) {
    const int64_t row = static_cast<int64_t>(blockIdx.x) * (THREADS / 32) + (threadIdx.x >> 5);
    if (row >= rows) return;
    const int lane = threadIdx.x & 31;
    const T* from = table + __ldg(tokens + row) * width;
    T* to = out + row * width;
    int c = lane;
    for (; c + 32 * (DEPTH - 1) < width; c += 32 * DEPTH) {
        T v[DEPTH];
#pragma unroll
        for (int i = 0; i < DEPTH; ++i) v[i] = __ldg(from + c + 32 * i);
#pragma unroll
        for (int i = 0; i < DEPTH; ++i) put(to + c + 32 * i, v[i]);
    }
    for (; c < width; c += 32) put(to + c, __ldg(from + c));
}

torch::Tensor forward(torch::Tensor tokens, torch::Tensor table) {
    TORCH_CHECK(table.is_cuda() && table.scalar_type() == torch::kFloat32 && table.dim() == 2, "fp32 table");
    TORCH_CHECK(tokens.scalar_type() == torch::kInt64, "int64 tokens");
    tokens = tokens.contiguous();
    table = table.contiguous();
    const int width = static_cast<int>(table.size(1));
    const int64_t rows = tokens.numel();
    auto shape = tokens.sizes().vec();
    shape.push_back(width);
    auto out = torch::empty(shape, table.options());
    if (out.numel() == 0) return out;
    const c10::cuda::CUDAGuard guard(table.device());
    const auto stream = c10::cuda::getCurrentCUDAStream();
    const unsigned blocks = static_cast<unsigned>((rows + THREADS / 32 - 1) / (THREADS / 32));
    const auto address = reinterpret_cast<uintptr_t>(table.data_ptr()) | reinterpret_cast<uintptr_t>(out.data_ptr());
    if (width % 4 == 0 && address % 16 == 0) {
        lookup<float4><<<blocks, THREADS, 0, stream>>>(
            tokens.data_ptr<int64_t>(), reinterpret_cast<const float4*>(table.data_ptr<float>()),
            reinterpret_cast<float4*>(out.data_ptr<float>()), rows, width / 4);
    } else {
        lookup<float><<<blocks, THREADS, 0, stream>>>(tokens.data_ptr<int64_t>(), table.data_ptr<float>(),
                                                      out.data_ptr<float>(), rows, width);
    }
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""

CPP_SOURCE = "torch::Tensor forward(torch::Tensor tokens, torch::Tensor table);"

extension = load_inline(
    name="embedding_rows",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["forward"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, vocabulary: int, features: int):
        super().__init__()
        self.table = nn.Parameter(torch.randn(vocabulary, features))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return extension.forward(tokens, self.table)
