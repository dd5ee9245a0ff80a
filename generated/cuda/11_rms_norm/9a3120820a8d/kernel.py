import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

constexpr int THREADS = 256, WARPS = THREADS / 32, HELD = 4;

__device__ __forceinline__ float block_sum(float value, float* shared) {
#pragma unroll
    for (int offset = 16; offset; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
    __syncthreads();
    value = threadIdx.x % 32 < WARPS ? shared[threadIdx.x % 32] : 0.0f;
#pragma unroll
    for (int offset = WARPS / 2; offset; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
    return __shfl_sync(0xffffffffu, value, 0);
}

__global__ void __launch_bounds__(THREADS)
rms_norm_quads(const float4* __restrict__ x, const float4* __restrict__ weight, float4* __restrict__ out, int quads,
               float share, float epsilon) {
    __shared__ float shared[WARPS];
    const float4* row = x + static_cast<size_t>(blockIdx.x) * quads;
    float4* to = out + static_cast<size_t>(blockIdx.x) * quads;
    float4 held[HELD];
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < HELD; ++i) {
        const int at = threadIdx.x + i * THREADS;
        if (at < quads) {
            held[i] = row[at];
            squares += held[i].x * held[i].x + held[i].y * held[i].y + held[i].z * held[i].z + held[i].w * held[i].w;
        }
    }
    const float scale = rsqrtf(block_sum(squares, shared) * share + epsilon);
#pragma unroll
    for (int i = 0; i < HELD; ++i) {
        const int at = threadIdx.x + i * THREADS;
        if (at < quads) {
            const float4 w = weight[at];
            to[at] = make_float4(held[i].x * scale * w.x, held[i].y * scale * w.y, held[i].z * scale * w.z,
                                 held[i].w * scale * w.w);
        }
    }
}

__global__ void __launch_bounds__(THREADS)
rms_norm_any(const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ out, int features,
             float share, float epsilon) {
    __shared__ float shared[WARPS];
    const float* row = x + static_cast<size_t>(blockIdx.x) * features;
    float* to = out + static_cast<size_t>(blockIdx.x) * features;
    float squares = 0.0f;
    for (int i = threadIdx.x; i < features; i += THREADS) squares += row[i] * row[i];
    const float scale = rsqrtf(block_sum(squares, shared) * share + epsilon);
    for (int i = threadIdx.x; i < features; i += THREADS) to[i] = row[i] * scale * weight[i];
}

torch::Tensor rms_norm(torch::Tensor x, torch::Tensor weight, double epsilon) {
    x = x.contiguous();
    weight = weight.contiguous();
    TORCH_CHECK(x.size(-1) == weight.numel(), "weight does not match the rows");
    auto out = torch::empty_like(x);
    const int features = weight.numel();
    const int rows = x.numel() / features;
    const float share = 1.0f / features, eps = static_cast<float>(epsilon);
    if (features % 4 == 0 && features <= 4 * HELD * THREADS)
        rms_norm_quads<<<rows, THREADS>>>(reinterpret_cast<const float4*>(x.data_ptr<float>()),
                                          reinterpret_cast<const float4*>(weight.data_ptr<float>()),
                                          reinterpret_cast<float4*>(out.data_ptr<float>()), features / 4, share, eps);
    else
        rms_norm_any<<<rows, THREADS>>>(x.data_ptr<float>(), weight.data_ptr<float>(), out.data_ptr<float>(), features,
                                        share, eps);
    TORCH_CHECK(cudaGetLastError() == cudaSuccess, "launch failed");
    return out;
}
"""

module = load_inline(
    name="fused_rms_norm",
    cpp_sources="torch::Tensor rms_norm(torch::Tensor x, torch::Tensor weight, double epsilon);",
    cuda_sources=cuda_source,
    functions=["rms_norm"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, features: int, epsilon: float):
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(1.0 + 0.3 * torch.randn(features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return module.rms_norm(x, self.weight, self.epsilon)
