import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <algorithm>

constexpr int THREADS = 256, DEPTH = 4;

__device__ __forceinline__ float silu(float v) { return __fdividef(v, 1.0f + expf(-v)); }

__device__ __forceinline__ float tap4(float4 w, float bias, float a, float b, float c, float d) {
    return silu(fmaf(w.w, d, fmaf(w.z, c, fmaf(w.y, b, fmaf(w.x, a, bias)))));
}

__global__ void __launch_bounds__(THREADS)
conv4(const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
      float* __restrict__ out, int features, int quads) {
    const int64_t row = blockIdx.x;
    const int feature = static_cast<int>(row % features);
    const float4* from = reinterpret_cast<const float4*>(x) + row * quads;
    float4* to = reinterpret_cast<float4*>(out) + row * quads;
    const float4 w = __ldg(reinterpret_cast<const float4*>(weight) + feature);
    const float b = __ldg(bias + feature);
    const int lane = threadIdx.x & 31;
    const float4 zero = make_float4(0.f, 0.f, 0.f, 0.f);
    // The bounds of the loop are the same for all lanes of a warp.
    for (int base = threadIdx.x - lane; base < quads; base += THREADS * DEPTH) {
        float4 v[DEPTH], p[DEPTH];
#pragma unroll
        for (int k = 0; k < DEPTH; ++k) {
            const int i = base + k * THREADS + lane;
            v[k] = i < quads ? __ldg(from + i) : zero;
            p[k] = lane == 0 && i > 0 && i < quads ? __ldg(from + i - 1) : zero;
        }
#pragma unroll
        for (int k = 0; k < DEPTH; ++k) {
            const int i = base + k * THREADS + lane;
            const float py = __shfl_up_sync(0xffffffffu, v[k].y, 1);
            const float pz = __shfl_up_sync(0xffffffffu, v[k].z, 1);
            const float pw = __shfl_up_sync(0xffffffffu, v[k].w, 1);
            const float a = lane ? py : p[k].y, c = lane ? pz : p[k].z, d = lane ? pw : p[k].w;
            float4 r;
            r.x = tap4(w, b, a, c, d, v[k].x);
            r.y = tap4(w, b, c, d, v[k].x, v[k].y);
            r.z = tap4(w, b, d, v[k].x, v[k].y, v[k].z);
            r.w = tap4(w, b, v[k].x, v[k].y, v[k].z, v[k].w);
            if (i < quads) __stcs(to + i, r);
        }
    }
}

__global__ void __launch_bounds__(THREADS)
conv_any(const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
         float* __restrict__ out, int features, int length, int taps, int64_t total) {
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x; i < total;
         i += static_cast<int64_t>(gridDim.x) * THREADS) {
        const int64_t row = i / length;
        const int t = static_cast<int>(i - row * length);
        const int feature = static_cast<int>(row % features);
        const float* w = weight + static_cast<int64_t>(feature) * taps;
        float sum = bias[feature];
        for (int k = max(0, taps - 1 - t); k < taps; ++k) sum = fmaf(w[k], x[i - (taps - 1) + k], sum);
        out[i] = silu(sum);
    }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    TORCH_CHECK(x.is_cuda() && x.scalar_type() == torch::kFloat32 && x.dim() == 3 &&
                weight.scalar_type() == torch::kFloat32 && bias.scalar_type() == torch::kFloat32, "fp32 inputs");
    x = x.contiguous();
    weight = weight.contiguous();
    bias = bias.contiguous();
    const int features = static_cast<int>(x.size(1)), length = static_cast<int>(x.size(2));
    const int taps = static_cast<int>(weight.size(-1));
    auto out = torch::empty_like(x);
    if (out.numel() == 0) return out;
    const int64_t rows = x.size(0) * features;
    const c10::cuda::CUDAGuard guard(x.device());
    const auto stream = c10::cuda::getCurrentCUDAStream();
    const auto address = reinterpret_cast<uintptr_t>(x.data_ptr()) | reinterpret_cast<uintptr_t>(weight.data_ptr()) |
                         reinterpret_cast<uintptr_t>(out.data_ptr());
    if (taps == 4 && length % 4 == 0 && address % 16 == 0) {
        conv4<<<static_cast<unsigned>(rows), THREADS, 0, stream>>>(
            x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(), out.data_ptr<float>(), features,
            length / 4);
    } else {
        const int64_t total = rows * length;
        const unsigned blocks = static_cast<unsigned>(std::min<int64_t>((total + THREADS - 1) / THREADS, 132 * 32));
        conv_any<<<blocks, THREADS, 0, stream>>>(
            x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(), out.data_ptr<float>(), features,
            length, taps, total);
    }
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""

CPP_SOURCE = "torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias);"

extension = load_inline(
    name="causal_conv_silu",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["forward"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, features: int, taps: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features, 1, taps) / 2.0)
        self.bias = nn.Parameter(torch.randn(features) / 2.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return extension.forward(x, self.weight, self.bias)
