import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <cfloat>

constexpr int THREADS = 512, WARPS = THREADS / 32, HELD = 4;

struct Larger {
    __device__ float operator()(float x, float y) const { return fmaxf(x, y); }
};
struct Sum {
    __device__ float operator()(float x, float y) const { return x + y; }
};

// Everybody gets the result; `shared` may be reused after the next barrier.
template <class Combine>
__device__ float across_block(float value, float identity, float* shared, Combine combine) {
#pragma unroll
    for (int offset = 16; offset; offset /= 2) value = combine(value, __shfl_xor_sync(0xffffffffu, value, offset));
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
    __syncthreads();
    value = threadIdx.x % 32 < WARPS ? shared[threadIdx.x % 32] : identity;
#pragma unroll
    for (int offset = 16; offset; offset /= 2) value = combine(value, __shfl_xor_sync(0xffffffffu, value, offset));
    return value;
}

__global__ void __launch_bounds__(THREADS)
softmax_in_registers(const float4* __restrict__ x, float4* __restrict__ out, int quads) {
    __shared__ float tops[WARPS], sums[WARPS];
    const float4* row = x + static_cast<size_t>(blockIdx.x) * quads;
    float4* to = out + static_cast<size_t>(blockIdx.x) * quads;
    float4 held[HELD];
    float top = -FLT_MAX;
#pragma unroll
    for (int i = 0; i < HELD; ++i) {
        const int at = threadIdx.x + i * THREADS;
        if (at < quads) {
            held[i] = row[at];
            top = fmaxf(top, fmaxf(fmaxf(held[i].x, held[i].y), fmaxf(held[i].z, held[i].w)));
        }
    }
    top = across_block(top, -FLT_MAX, tops, Larger());
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < HELD; ++i)
        if (threadIdx.x + i * THREADS < quads) {
            held[i].x = expf(held[i].x - top);
            held[i].y = expf(held[i].y - top);
            held[i].z = expf(held[i].z - top);
            held[i].w = expf(held[i].w - top);
            sum += (held[i].x + held[i].y) + (held[i].z + held[i].w);
        }
    const float factor = 1.0f / across_block(sum, 0.0f, sums, Sum());
#pragma unroll
    for (int i = 0; i < HELD; ++i) {
        const int at = threadIdx.x + i * THREADS;
        if (at < quads)
            to[at] = make_float4(held[i].x * factor, held[i].y * factor, held[i].z * factor, held[i].w * factor);
    }
}

__global__ void __launch_bounds__(THREADS)
softmax_any(const float* __restrict__ x, float* __restrict__ out, int columns) {
    __shared__ float tops[WARPS], sums[WARPS];
    const float* row = x + static_cast<size_t>(blockIdx.x) * columns;
    float* to = out + static_cast<size_t>(blockIdx.x) * columns;
    float top = -FLT_MAX;
    for (int i = threadIdx.x; i < columns; i += THREADS) top = fmaxf(top, row[i]);
    top = across_block(top, -FLT_MAX, tops, Larger());
    float sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += THREADS) sum += expf(row[i] - top);
    const float factor = 1.0f / across_block(sum, 0.0f, sums, Sum());
    for (int i = threadIdx.x; i < columns; i += THREADS) to[i] = expf(row[i] - top) * factor;
}

torch::Tensor softmax(torch::Tensor x) {
    TORCH_CHECK(x.dim() == 2, "expected rows and columns");
    x = x.contiguous();
    auto out = torch::empty_like(x);
    const int rows = x.size(0), columns = x.size(1);
    if (columns % 4 == 0 && columns <= 4 * HELD * THREADS)
        softmax_in_registers<<<rows, THREADS>>>(reinterpret_cast<const float4*>(x.data_ptr<float>()),
                                                reinterpret_cast<float4*>(out.data_ptr<float>()), columns / 4);
    else
        softmax_any<<<rows, THREADS>>>(x.data_ptr<float>(), out.data_ptr<float>(), columns);
    TORCH_CHECK(cudaGetLastError() == cudaSuccess, "launch failed");
    return out;
}
"""

module = load_inline(
    name="row_softmax",
    cpp_sources="torch::Tensor softmax(torch::Tensor x);",
    cuda_sources=cuda_source,
    functions=["softmax"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def forward(self, logits: torch.Tensor) -> torch.Tensor:
        return module.softmax(logits)
