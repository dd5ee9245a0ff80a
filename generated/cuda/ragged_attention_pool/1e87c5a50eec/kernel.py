import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

constexpr int WARPS = 8;
constexpr int THREADS = WARPS * 32;
constexpr int STEPS = 8;

// 128 features: a row is one float4 per lane.
__global__ void __launch_bounds__(THREADS, 4)
pool128(const float4* __restrict__ x, const int64_t* __restrict__ lengths, const float4* __restrict__ direction,
        float* __restrict__ out, int length) {
    const int64_t item = blockIdx.x;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const int64_t given = lengths[item];
    const int valid = static_cast<int>(given < length ? given : length);
    const float4* rows = x + item * length * 32 + lane;
    const float4 w = direction[lane];
    float top = -INFINITY, total = 0.0f;
    float4 acc = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int first = warp * STEPS; first < valid; first += WARPS * STEPS) {
        float4 v[STEPS];
        float s[STEPS];
#pragma unroll
        for (int u = 0; u < STEPS; ++u)
            v[u] = first + u < valid ? __ldcs(rows + static_cast<int64_t>(first + u) * 32)
                                     : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
        for (int u = 0; u < STEPS; ++u) s[u] = (v[u].x * w.x + v[u].y * w.y) + (v[u].z * w.z + v[u].w * w.w);
#pragma unroll
        for (int offset = 16; offset > 0; offset >>= 1)
#pragma unroll
            for (int u = 0; u < STEPS; ++u) s[u] += __shfl_xor_sync(0xffffffffu, s[u], offset);
        float high = top;
#pragma unroll
        for (int u = 0; u < STEPS; ++u)
            if (first + u < valid) high = fmaxf(high, s[u]);
        const float shrink = expf(top - high);
        top = high;
        total *= shrink;
        acc.x *= shrink;
        acc.y *= shrink;
        acc.z *= shrink;
        acc.w *= shrink;
#pragma unroll
        for (int u = 0; u < STEPS; ++u) {
            const float p = first + u < valid ? expf(s[u] - high) : 0.0f;
            total += p;
            acc.x += p * v[u].x;
            acc.y += p * v[u].y;
            acc.z += p * v[u].z;
            acc.w += p * v[u].w;
        }
    }
    __shared__ float tops[WARPS], totals[WARPS];
    __shared__ float4 parts[WARPS][32];
    parts[warp][lane] = acc;
    if (lane == 0) {
        tops[warp] = top;
        totals[warp] = total;
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        float high = tops[0];
#pragma unroll
        for (int i = 1; i < WARPS; ++i) high = fmaxf(high, tops[i]);
        float sum = 0.0f, result = 0.0f;
#pragma unroll
        for (int i = 0; i < WARPS; ++i) {
            const float f = expf(tops[i] - high);
            sum += f * totals[i];
            result += f * reinterpret_cast<const float*>(&parts[i][0])[threadIdx.x];
        }
        out[item * 128 + threadIdx.x] = result / sum;
    }
}

// Any number of features; scores of the whole sequence in shared memory.
__global__ void __launch_bounds__(THREADS)
pool_any(const float* __restrict__ x, const int64_t* __restrict__ lengths, const float* __restrict__ direction,
         float* __restrict__ out, int length, int features) {
    extern __shared__ float scores[];
    __shared__ float partial[WARPS];
    const int64_t item = blockIdx.x;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const int64_t given = lengths[item];
    const int valid = static_cast<int>(given < length ? given : length);
    const float* rows = x + item * length * features;
    float high = -INFINITY;
    for (int step = warp; step < valid; step += WARPS) {
        float s = 0.0f;
        for (int i = lane; i < features; i += 32) s += rows[static_cast<int64_t>(step) * features + i] * direction[i];
#pragma unroll
        for (int offset = 16; offset > 0; offset >>= 1) s += __shfl_xor_sync(0xffffffffu, s, offset);
        if (lane == 0) scores[step] = s;
        high = fmaxf(high, s);
    }
    if (lane == 0) partial[warp] = high;
    __syncthreads();
    high = partial[0];
#pragma unroll
    for (int i = 1; i < WARPS; ++i) high = fmaxf(high, partial[i]);
    for (int step = threadIdx.x; step < valid; step += THREADS) scores[step] = expf(scores[step] - high);
    __syncthreads();
    for (int i = threadIdx.x; i < features; i += THREADS) {
        float sum = 0.0f, result = 0.0f;
        for (int step = 0; step < valid; ++step) {
            const float p = scores[step];
            sum += p;
            result += p * rows[static_cast<int64_t>(step) * features + i];
        }
        out[item * features + i] = result / sum;
    }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor lengths, torch::Tensor direction) {
    TORCH_CHECK(x.is_cuda() && x.scalar_type() == torch::kFloat32 && x.dim() == 3, "fp32 [batch, length, features]");
    TORCH_CHECK(lengths.scalar_type() == torch::kInt64 && direction.scalar_type() == torch::kFloat32, "types");
    x = x.contiguous();
    lengths = lengths.contiguous();
    direction = direction.contiguous();
    const int64_t batch = x.size(0), length = x.size(1), features = x.size(2);
    auto out = torch::empty({batch, features}, x.options());
    if (out.numel() == 0) return out;
    const c10::cuda::CUDAGuard guard(x.device());
    const auto stream = c10::cuda::getCurrentCUDAStream();
    const auto address = reinterpret_cast<uintptr_t>(x.data_ptr()) | reinterpret_cast<uintptr_t>(direction.data_ptr());
    if (features == 128 && address % 16 == 0) {
        pool128<<<static_cast<unsigned>(batch), THREADS, 0, stream>>>(
            reinterpret_cast<const float4*>(x.data_ptr<float>()), lengths.data_ptr<int64_t>(),
            reinterpret_cast<const float4*>(direction.data_ptr<float>()), out.data_ptr<float>(),
            static_cast<int>(length));
    } else {
        const size_t bytes = static_cast<size_t>(length > 0 ? length : 1) * sizeof(float);
        if (bytes > 40 * 1024)
            C10_CUDA_CHECK(cudaFuncSetAttribute(pool_any, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                static_cast<int>(bytes)));
        pool_any<<<static_cast<unsigned>(batch), THREADS, bytes, stream>>>(
            x.data_ptr<float>(), lengths.data_ptr<int64_t>(), direction.data_ptr<float>(), out.data_ptr<float>(),
            static_cast<int>(length), static_cast<int>(features));
    }
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""

CPP_SOURCE = "torch::Tensor forward(torch::Tensor x, torch::Tensor lengths, torch::Tensor direction);"

extension = load_inline(
    name="ragged_attention_pool",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["forward"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.direction = nn.Parameter(2.0 * torch.randn(features) / features**0.5)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return extension.forward(x, lengths, self.direction.detach())
