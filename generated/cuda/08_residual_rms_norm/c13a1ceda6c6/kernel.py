import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <vector>

constexpr int THREADS = 256, WARPS = THREADS / 32, HELD = 4;

__device__ __forceinline__ float block_sum(float value, float* shared) {
#pragma unroll
    for (int offset = 16; offset; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0.0f;
#pragma unroll
    for (int warp = 0; warp < WARPS; ++warp) value += shared[warp];
    return value;
}

__global__ void __launch_bounds__(THREADS)
residual_quads(const float4* __restrict__ x, const float4* __restrict__ residual, const float4* __restrict__ weight,
               float4* __restrict__ normal, float4* __restrict__ total, int quads, float share, float epsilon) {
    __shared__ float shared[WARPS];
    const size_t base = static_cast<size_t>(blockIdx.x) * quads;
    float4 held[HELD];
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < HELD; ++i) {
        const int at = threadIdx.x + i * THREADS;
        if (at < quads) {
            const float4 a = x[base + at], b = residual[base + at];
            const float4 v = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
            held[i] = v;
            total[base + at] = v;
            squares += (v.x * v.x + v.y * v.y) + (v.z * v.z + v.w * v.w);
        }
    }
    const float scale = rsqrtf(block_sum(squares, shared) * share + epsilon);
#pragma unroll
    for (int i = 0; i < HELD; ++i) {
        const int at = threadIdx.x + i * THREADS;
        if (at < quads) {
            const float4 v = held[i], w = weight[at];
            normal[base + at] = make_float4(v.x * scale * w.x, v.y * scale * w.y, v.z * scale * w.z, v.w * scale * w.w);
        }
    }
}

__global__ void __launch_bounds__(THREADS)
residual_any(const float* __restrict__ x, const float* __restrict__ residual, const float* __restrict__ weight,
             float* __restrict__ normal, float* __restrict__ total, int features, float share, float epsilon) {
    __shared__ float shared[WARPS];
    const size_t base = static_cast<size_t>(blockIdx.x) * features;
    float squares = 0.0f;
    for (int i = threadIdx.x; i < features; i += THREADS) {
        const float v = x[base + i] + residual[base + i];
        total[base + i] = v;
        squares += v * v;
    }
    const float scale = rsqrtf(block_sum(squares, shared) * share + epsilon);
    for (int i = threadIdx.x; i < features; i += THREADS) normal[base + i] = total[base + i] * scale * weight[i];
}

std::vector<torch::Tensor> residual_rms_norm(torch::Tensor x, torch::Tensor residual, torch::Tensor weight,
                                             double epsilon) {
    TORCH_CHECK(x.sizes() == residual.sizes(), "the residual has another shape");
    x = x.contiguous();
    residual = residual.contiguous();
    weight = weight.contiguous();
    auto normal = torch::empty_like(x), total = torch::empty_like(x);
    const int features = weight.numel();
    const int rows = x.numel() / features;
    const float share = 1.0f / features, eps = static_cast<float>(epsilon);
    if (features % 4 == 0 && features <= 4 * HELD * THREADS)
        residual_quads<<<rows, THREADS>>>(
            reinterpret_cast<const float4*>(x.data_ptr<float>()),
            reinterpret_cast<const float4*>(residual.data_ptr<float>()),
            reinterpret_cast<const float4*>(weight.data_ptr<float>()), reinterpret_cast<float4*>(normal.data_ptr<float>()),
            reinterpret_cast<float4*>(total.data_ptr<float>()), features / 4, share, eps);
    else
        residual_any<<<rows, THREADS>>>(x.data_ptr<float>(), residual.data_ptr<float>(), weight.data_ptr<float>(),
                                        normal.data_ptr<float>(), total.data_ptr<float>(), features, share, eps);
    TORCH_CHECK(cudaGetLastError() == cudaSuccess, "launch failed");
    return {normal, total};
}
"""

module = load_inline(
    name="residual_rms_norm",
    cpp_sources="""
std::vector<torch::Tensor> residual_rms_norm(torch::Tensor x, torch::Tensor residual, torch::Tensor weight,
                                             double epsilon);
""",
    cuda_sources=cuda_source,
    functions=["residual_rms_norm"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, features: int, epsilon: float):
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(1.0 + 0.3 * torch.randn(features))

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        normal, total = module.residual_rms_norm(x, residual, self.weight, self.epsilon)
        return normal, total
