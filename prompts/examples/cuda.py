import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

constexpr int THREADS = 256;

__device__ __forceinline__ float term(float x, float y, float weight, float clip) {
    const float d = fminf(fmaxf(x - y, -clip), clip);
    return d * d * weight;
}

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) value += __shfl_down_sync(0xffffffffu, value, offset);
    return value;
}

// One block a row: every byte is read once, 16 bytes at a time where rows are aligned.
__global__ void __launch_bounds__(THREADS)
clipped_distance(const float* __restrict__ x, const float* __restrict__ y, const float* __restrict__ weight,
                 float* __restrict__ out, int features, float clip, bool aligned) {
    const int64_t row = blockIdx.x;
    const float* xr = x + row * features;
    const float* yr = y + row * features;
    float sum = 0.0f;
    int begin = 0;
    if (aligned) {
        const float4* x4 = reinterpret_cast<const float4*>(xr);
        const float4* y4 = reinterpret_cast<const float4*>(yr);
        const float4* w4 = reinterpret_cast<const float4*>(weight);
        begin = features / 4 * 4;
#pragma unroll 4
        for (int i = threadIdx.x; i < features / 4; i += THREADS) {
            const float4 a = x4[i], b = y4[i], w = w4[i];
            sum += term(a.x, b.x, w.x, clip) + term(a.y, b.y, w.y, clip)
                 + term(a.z, b.z, w.z, clip) + term(a.w, b.w, w.w, clip);
        }
    }
    for (int i = begin + threadIdx.x; i < features; i += THREADS) sum += term(xr[i], yr[i], weight[i], clip);

    __shared__ float partial[THREADS / 32];
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = warp_sum(threadIdx.x < THREADS / 32 ? partial[threadIdx.x] : 0.0f);
        if (threadIdx.x == 0) out[row] = sum;
    }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor y, torch::Tensor weight, double clip) {
    TORCH_CHECK(x.is_cuda() && x.scalar_type() == torch::kFloat32 && x.sizes() == y.sizes(), "two equal fp32 inputs");
    x = x.contiguous();
    y = y.contiguous();
    weight = weight.contiguous();
    const int features = static_cast<int>(x.size(-1));
    const int64_t rows = features ? x.numel() / features : 0;
    const auto shape = x.sizes().slice(0, x.dim() - 1);
    auto out = features ? torch::empty(shape, x.options()) : torch::zeros(shape, x.options());
    if (rows == 0) return out;
    const auto address = reinterpret_cast<uintptr_t>(x.data_ptr()) | reinterpret_cast<uintptr_t>(y.data_ptr()) |
                         reinterpret_cast<uintptr_t>(weight.data_ptr());
    const bool aligned = features % 4 == 0 && address % 16 == 0;
    const c10::cuda::CUDAGuard guard(x.device());
    clipped_distance<<<static_cast<unsigned>(rows), THREADS, 0, c10::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), weight.data_ptr<float>(), out.data_ptr<float>(), features,
        static_cast<float>(clip), aligned);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""

CPP_SOURCE = "torch::Tensor forward(torch::Tensor x, torch::Tensor y, torch::Tensor weight, double clip);"

extension = load_inline(
    name="clipped_distance",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["forward"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, features: int, clip: float):
        super().__init__()
        self.clip = clip
        self.weight = nn.Parameter(torch.rand(features) + 0.5)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return extension.forward(x, y, self.weight, self.clip)
