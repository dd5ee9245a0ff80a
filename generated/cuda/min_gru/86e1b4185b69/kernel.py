import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

constexpr int THREADS = 1024;
constexpr int FEATURES = 16;              // of a block
constexpr int STEPS = 4;                  // of a thread in a tile
constexpr int STRIPS = THREADS / FEATURES;
constexpr int TILE = STRIPS * STEPS;
constexpr int STRIDE = STEPS * FEATURES + 16;   // floats of a strip, padded against bank conflicts
constexpr int HALF = STRIPS * STRIDE;           // floats of one input in a stage
constexpr int STAGES = 4;
constexpr int BYTES = STAGES * 2 * HALF * 4;
constexpr unsigned ALL = 0xffffffffu;

template <int N>
__device__ __forceinline__ void copy_async(float* target, const float* source) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(target));
    if (N == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(address), "l"(source) : "memory");
    else asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(address), "l"(source) : "memory");
}

template <bool WIDE>
__device__ __forceinline__ void fetch(float* stage, const float* gates, const float* candidates, int first, int length,
                                      int f0, int features) {
    // gates and candidates point at the sequence's first step.
    if (WIDE) {
        const int step = threadIdx.x / 4, q = threadIdx.x % 4;
        const int t = first + step, f = f0 + q * 4;
        if (t < length && f < features) {
            float* target = stage + (step / STEPS) * STRIDE + (step % STEPS) * FEATURES + q * 4;
            const int64_t place = static_cast<int64_t>(t) * features + f;
            copy_async<16>(target, gates + place);
            copy_async<16>(target + HALF, candidates + place);
        }
    } else {
#pragma unroll
        for (int r = 0; r < STEPS; ++r) {
            const int step = r * STRIPS + threadIdx.x / FEATURES, c = threadIdx.x % FEATURES;
            const int t = first + step, f = f0 + c;
            if (t < length && f < features) {
                float* target = stage + (step / STEPS) * STRIDE + (step % STEPS) * FEATURES + c;
                const int64_t place = static_cast<int64_t>(t) * features + f;
                copy_async<4>(target, gates + place);
                copy_async<4>(target + HALF, candidates + place);
            }
        }
    }
}

template <bool WIDE>
__global__ void __launch_bounds__(THREADS, 1)
min_gru(const float* __restrict__ gates, const float* __restrict__ candidates, const float* __restrict__ initial,
        float* __restrict__ out, int length, int features, int parts) {
    extern __shared__ __align__(16) float ring[];
    __shared__ float kept_s[32][FEATURES + 1], fed_s[32][FEATURES + 1], state_s[32][FEATURES + 1];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int column = threadIdx.x % FEATURES, strip = threadIdx.x / FEATURES;
    const int64_t sequence = blockIdx.x / parts;
    const int f0 = (blockIdx.x % parts) * FEATURES;
    const int f = f0 + column;
    const int64_t base = sequence * length * features;
    gates += base;
    candidates += base;
    out += base;
    const int tiles = (length + TILE - 1) / TILE;

    // Warp w < 16 carries the state of feature f0 + w.
    float carry = 0.0f;
    if (warp < FEATURES && f0 + warp < features) carry = fabsf(initial[f0 + warp]);

#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) {
        if (s < tiles) fetch<WIDE>(ring + s * 2 * HALF, gates, candidates, s * TILE, length, f0, features);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }

    for (int tile = 0; tile < tiles; ++tile) {
        asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
        __syncthreads();
        const int next = tile + STAGES - 1;
        if (next < tiles)
            fetch<WIDE>(ring + (next % STAGES) * 2 * HALF, gates, candidates, next * TILE, length, f0, features);
        asm volatile("cp.async.commit_group;" ::: "memory");

        const float* stage = ring + (tile % STAGES) * 2 * HALF + strip * STRIDE + column;
        const int t0 = tile * TILE + strip * STEPS;
        float a[STEPS], b[STEPS];
        float kept = 1.0f, fed = 0.0f;
#pragma unroll
        for (int k = 0; k < STEPS; ++k) {
            a[k] = 1.0f;
            b[k] = 0.0f;
            if (t0 + k < length && f < features) {
                const float g = stage[k * FEATURES], c = stage[HALF + k * FEATURES];
                const float e = expf(-fabsf(g));
                const float large = __fdividef(1.0f, 1.0f + e);
                const float small = e * large;
                const float z = g >= 0.0f ? large : small;
                a[k] = g >= 0.0f ? small : large;
                b[k] = z * (fmaxf(c, 0.0f) + log1pf(expf(-fabsf(c))));
            }
            fed = fmaf(a[k], fed, b[k]);
            kept *= a[k];
        }

        // Lanes 16 to 31 hold the strip behind the one of lanes 0 to 15.
        const float kept_before = __shfl_up_sync(ALL, kept, 16);
        const float fed_before = __shfl_up_sync(ALL, fed, 16);
        if (lane >= 16) {
            kept_s[warp][column] = kept * kept_before;
            fed_s[warp][column] = fmaf(kept, fed_before, fed);
        }
        __syncthreads();
        if (warp < FEATURES) {
            float ka = kept_s[lane][warp], kb = fed_s[lane][warp];
#pragma unroll
            for (int o = 1; o < 32; o <<= 1) {
                const float pa = __shfl_up_sync(ALL, ka, o);
                const float pb = __shfl_up_sync(ALL, kb, o);
                if (lane >= o) {
                    kb = fmaf(ka, pb, kb);
                    ka *= pa;
                }
            }
            const float ea = __shfl_up_sync(ALL, ka, 1);
            const float eb = __shfl_up_sync(ALL, kb, 1);
            state_s[lane][warp] = lane ? fmaf(ea, carry, eb) : carry;
            const float la = __shfl_sync(ALL, ka, 31);
            const float lb = __shfl_sync(ALL, kb, 31);
            carry = fmaf(la, carry, lb);
        }
        __syncthreads();
        float h = state_s[warp][column];
        if (lane >= 16) h = fmaf(kept_before, h, fed_before);
#pragma unroll
        for (int k = 0; k < STEPS; ++k) {
            h = fmaf(a[k], h, b[k]);
            if (t0 + k < length && f < features) __stcs(out + static_cast<int64_t>(t0 + k) * features + f, h);
        }
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
}

torch::Tensor forward(torch::Tensor gates, torch::Tensor candidates, torch::Tensor initial) {
    TORCH_CHECK(gates.is_cuda() && gates.dim() == 3 && gates.scalar_type() == torch::kFloat32
                && candidates.scalar_type() == torch::kFloat32 && candidates.sizes() == gates.sizes()
                && initial.scalar_type() == torch::kFloat32, "two equal fp32 inputs");
    gates = gates.contiguous();
    candidates = candidates.contiguous();
    initial = initial.contiguous();
    auto out = torch::empty_like(gates);
    if (out.numel() == 0) return out;
    const int64_t batch = gates.size(0), length = gates.size(1), features = gates.size(2);
    const int64_t parts = (features + FEATURES - 1) / FEATURES;
    const c10::cuda::CUDAGuard guard(gates.device());
    auto stream = c10::cuda::getCurrentCUDAStream();
    const auto address = reinterpret_cast<uintptr_t>(gates.data_ptr()) | reinterpret_cast<uintptr_t>(candidates.data_ptr());
    const bool wide = features % 4 == 0 && address % 16 == 0;
    auto kernel = wide ? min_gru<true> : min_gru<false>;
    C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES));
    kernel<<<static_cast<unsigned>(batch * parts), THREADS, BYTES, stream>>>(
        gates.data_ptr<float>(), candidates.data_ptr<float>(), initial.data_ptr<float>(), out.data_ptr<float>(),
        static_cast<int>(length), static_cast<int>(features), static_cast<int>(parts));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""

CPP_SOURCE = "torch::Tensor forward(torch::Tensor gates, torch::Tensor candidates, torch::Tensor initial);"

extension = load_inline(
    name="min_gru",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["forward"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.initial = nn.Parameter(0.5 + torch.rand(features))

    def forward(self, gates: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
        return extension.forward(gates, candidates, self.initial)
