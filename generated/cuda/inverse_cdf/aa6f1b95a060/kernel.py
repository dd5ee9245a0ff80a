import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <math_constants.h>

constexpr int THREADS = 512;
constexpr int WARPS = THREADS / 32;
constexpr int CHUNK = 1024;
constexpr unsigned ALL = 0xffffffffu;

// Element (i * 32 + lane) * VEC + k of the chunk goes to v[i * VEC + k]; -inf behind the row's end.
template <int VEC>
__device__ __forceinline__ void load_chunk(const float* __restrict__ row, int base, int size, int lane, float (&v)[32]) {
#pragma unroll
    for (int i = 0; i < 32 / VEC; ++i) {
        const int index = base + (i * 32 + lane) * VEC;
        if (VEC == 4) {
            float4 a = make_float4(-CUDART_INF_F, -CUDART_INF_F, -CUDART_INF_F, -CUDART_INF_F);
            if (index < size) a = *reinterpret_cast<const float4*>(row + index);
            v[i * 4 % 32] = a.x; v[(i * 4 + 1) % 32] = a.y; v[(i * 4 + 2) % 32] = a.z; v[(i * 4 + 3) % 32] = a.w;
        } else {
            v[i] = index < size ? row[index] : -CUDART_INF_F;
        }
    }
}

template <int VEC>
__global__ void __launch_bounds__(THREADS, 2)
sample(const float* __restrict__ logits, const float* __restrict__ uniform, float* __restrict__ out,
       int size, int draws, int chunks) {
    extern __shared__ float shared[];
    float* tops = shared;
    float* sums = shared + chunks;
    __shared__ float best_s;
    const float* row = logits + static_cast<int64_t>(blockIdx.x) * size;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    for (int c = warp; c < chunks; c += WARPS) {
        float v[32];
        load_chunk<VEC>(row, c * CHUNK, size, lane, v);
        float top = v[0];
#pragma unroll
        for (int i = 1; i < 32; ++i) top = fmaxf(top, v[i]);
#pragma unroll
        for (int o = 16; o > 0; o >>= 1) top = fmaxf(top, __shfl_xor_sync(ALL, top, o));
        const float safe = top == -CUDART_INF_F ? 0.0f : top;
        float s0 = 0.0f, s1 = 0.0f;
#pragma unroll
        for (int i = 0; i < 32; i += 2) {
            s0 += expf(v[i] - safe);
            s1 += expf(v[i + 1] - safe);
        }
        s0 += s1;
#pragma unroll
        for (int o = 16; o > 0; o >>= 1) s0 += __shfl_xor_sync(ALL, s0, o);
        if (lane == 0) {
            tops[c] = top;
            sums[c] = s0;
        }
    }
    __syncthreads();

    if (warp == 0) {
        float best = -CUDART_INF_F;
        for (int c = lane; c < chunks; c += 32) best = fmaxf(best, tops[c]);
#pragma unroll
        for (int o = 16; o > 0; o >>= 1) best = fmaxf(best, __shfl_xor_sync(ALL, best, o));
        float carry = 0.0f;
        for (int base = 0; base < chunks; base += 32) {
            const int c = base + lane;
            float s = c < chunks ? sums[c] * expf(tops[c] - best) : 0.0f;
#pragma unroll
            for (int o = 1; o < 32; o <<= 1) {
                const float other = __shfl_up_sync(ALL, s, o);
                if (lane >= o) s += other;
            }
            s += carry;
            if (c < chunks) sums[c] = s;
            carry = __shfl_sync(ALL, s, 31);
        }
        if (lane == 0) best_s = best;
    }
    __syncthreads();

    const float best = best_s;
    const float total = sums[chunks - 1];
    for (int d = warp; d < draws; d += WARPS) {
        const int64_t where = static_cast<int64_t>(blockIdx.x) * draws + d;
        const float wanted = uniform[where] * total;
        int chunk = -1;
        for (int base = 0; base < chunks; base += 32) {
            const int c = base + lane;
            const unsigned found = __ballot_sync(ALL, c < chunks && sums[c] >= wanted);
            if (found) {
                chunk = base + __ffs(found) - 1;
                break;
            }
        }
        float answer = total;
        if (chunk >= 0) {
            float carry = chunk ? sums[chunk - 1] : 0.0f;
            answer = sums[chunk];
            float v[32];
            load_chunk<VEC>(row, chunk * CHUNK, size, lane, v);
            bool open = true;
#pragma unroll
            for (int i = 0; i < 32 / VEC; ++i) {
                if (open) {
                    float p[VEC];
                    float run = 0.0f;
#pragma unroll
                    for (int k = 0; k < VEC; ++k) {
                        run += expf(v[i * VEC + k] - best);
                        p[k] = run;
                    }
                    float scan = run;
#pragma unroll
                    for (int o = 1; o < 32; o <<= 1) {
                        const float other = __shfl_up_sync(ALL, scan, o);
                        if (lane >= o) scan += other;
                    }
                    float before = __shfl_up_sync(ALL, scan, 1);
                    before = carry + (lane ? before : 0.0f);
                    float hit = 0.0f;
                    bool any = false;
#pragma unroll
                    for (int k = VEC - 1; k >= 0; --k) {
                        const float s = before + p[k];
                        if (s >= wanted && v[i * VEC + k] != -CUDART_INF_F) {
                            hit = s;
                            any = true;
                        }
                    }
                    const unsigned found = __ballot_sync(ALL, any);
                    if (found) {
                        answer = __shfl_sync(ALL, hit, __ffs(found) - 1);
                        open = false;
                    }
                    carry += __shfl_sync(ALL, scan, 31);
                }
            }
        }
        if (lane == 0) out[where] = answer / total;
    }
}

torch::Tensor forward(torch::Tensor logits, torch::Tensor uniform) {
    TORCH_CHECK(logits.is_cuda() && logits.dim() == 2 && logits.scalar_type() == torch::kFloat32
                && uniform.scalar_type() == torch::kFloat32 && uniform.size(0) == logits.size(0), "two fp32 tables");
    logits = logits.contiguous();
    uniform = uniform.contiguous();
    const int64_t rows = logits.size(0), size = logits.size(1), draws = uniform.size(1);
    auto out = torch::empty({rows, draws}, logits.options());
    if (out.numel() == 0) return out;
    const int chunks = static_cast<int>((size + CHUNK - 1) / CHUNK);
    const size_t bytes = 2 * sizeof(float) * chunks;
    TORCH_CHECK(bytes <= 40 * 1024, "row too long");
    const c10::cuda::CUDAGuard guard(logits.device());
    auto stream = c10::cuda::getCurrentCUDAStream();
    if (size % 4 == 0 && reinterpret_cast<uintptr_t>(logits.data_ptr()) % 16 == 0) {
        sample<4><<<static_cast<unsigned>(rows), THREADS, bytes, stream>>>(
            logits.data_ptr<float>(), uniform.data_ptr<float>(), out.data_ptr<float>(), static_cast<int>(size),
            static_cast<int>(draws), chunks);
    } else {
        sample<1><<<static_cast<unsigned>(rows), THREADS, bytes, stream>>>(
            logits.data_ptr<float>(), uniform.data_ptr<float>(), out.data_ptr<float>(), static_cast<int>(size),
            static_cast<int>(draws), chunks);
    }
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""

CPP_SOURCE = "torch::Tensor forward(torch::Tensor logits, torch::Tensor uniform);"

extension = load_inline(
    name="inverse_cdf",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["forward"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def forward(self, logits: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
        return extension.forward(logits, uniform)
