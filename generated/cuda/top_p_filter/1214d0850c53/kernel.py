import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

constexpr int THREADS = 1024, GROUPS = 8, ITEMS = 4 * GROUPS, SPAN = THREADS * 4, LIMIT = SPAN * GROUPS, LIST = 1024;
constexpr unsigned FULL = 0xffffffffu;

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(FULL, v, o);
    return v;
}
__device__ __forceinline__ double warp_sum(double v) {
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(FULL, v, o);
    return v;
}
__device__ __forceinline__ float warp_max(float v) {
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) v = fmaxf(v, __shfl_xor_sync(FULL, v, o));
    return v;
}

// The same result in every thread; the buffer may be used again after two more barriers or another buffer's turn.
template <typename T>
__device__ __forceinline__ T block_sum(T v, T* buffer) {
    v = warp_sum(v);
    if ((threadIdx.x & 31) == 0) buffer[threadIdx.x >> 5] = v;
    __syncthreads();
    return warp_sum(buffer[threadIdx.x & 31]);
}

__global__ void __launch_bounds__(THREADS, 1)
nucleus(const float* __restrict__ logits, const float* __restrict__ limits, float* __restrict__ out, int vocabulary,
        bool aligned) {
    __shared__ float sums[2][32];
    __shared__ double exact[2][32];
    __shared__ float maxima[32];
    __shared__ float list_x[LIST];
    __shared__ float list_w[LIST];
    __shared__ int list_i[LIST];
    __shared__ int tie_totals[32];
    __shared__ int found;

    const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
    const float* source = logits + static_cast<int64_t>(blockIdx.x) * vocabulary;
    float* target_row = out + static_cast<int64_t>(blockIdx.x) * vocabulary;
    const float minus_infinity = __int_as_float(0xff800000);
    if (tid == 0) found = 0;

    // Item 4 g + e of a thread is token g * SPAN + 4 tid + e.
    float w[ITEMS];
#pragma unroll
    for (int g = 0; g < GROUPS; ++g) {
        const int at = g * SPAN + 4 * tid;
        float4 v = make_float4(minus_infinity, minus_infinity, minus_infinity, minus_infinity);
        if (aligned) {
            if (at < vocabulary) v = *reinterpret_cast<const float4*>(source + at);
        } else {
            if (at < vocabulary) v.x = source[at];
            if (at + 1 < vocabulary) v.y = source[at + 1];
            if (at + 2 < vocabulary) v.z = source[at + 2];
            if (at + 3 < vocabulary) v.w = source[at + 3];
        }
        w[4 * g] = v.x;
        w[4 * g + 1] = v.y;
        w[4 * g + 2] = v.z;
        w[4 * g + 3] = v.w;
    }
    float top = w[0];
#pragma unroll
    for (int i = 1; i < ITEMS; ++i) top = fmaxf(top, w[i]);
    top = warp_max(top);
    if (lane == 0) maxima[warp] = top;
    __syncthreads();
    top = warp_max(maxima[lane]);

    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        const bool inside = (i / 4) * SPAN + 4 * tid + i % 4 < vocabulary;
        const float e = expf(w[i] - top);
        sum += inside ? e : 0.0f;
        w[i] = inside ? e : -1.0f;  // a negative weight is never chosen
    }
    const double whole = block_sum(static_cast<double>(sum), exact[0]);
    const float limit = limits[blockIdx.x];
    const double target = static_cast<double>(limit) * whole;
    const float coarse = static_cast<float>(target);

    // Sum above `low` reaches the target, sum above `high` does not.
    int high = __float_as_int(1.0f), low = -1;
    if (limit < 1.0f) {
        const float cut = static_cast<float>((1.0 - limit) * whole / vocabulary) * 0.999f;
        low = max(min(__float_as_int(cut), high) - 1, -1);
    }
    int turn = 0, remaining = 8;
    int count = 0;
    while (true) {
        while (remaining > 0 && high - low > 1) {
            const int middle = low + (high - low) / 2;
            const float bound = __int_as_float(middle);
            float part = 0.0f;
#pragma unroll
            for (int i = 0; i < ITEMS; ++i)
                if (w[i] > bound) part += w[i];
            part = block_sum(part, sums[turn]);
            turn ^= 1;
            if (part < coarse) high = middle;
            else low = middle;
            --remaining;
        }
        int mine = 0;
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            const int bits = __float_as_int(w[i]);
            mine += (w[i] >= 0.0f && bits > low && bits <= high) ? 1 : 0;
        }
        count = static_cast<int>(block_sum(static_cast<float>(mine), sums[turn]) + 0.5f);
        turn ^= 1;
        if (count <= LIST || high - low <= 1) break;
        remaining = 3;
    }

    double above = 0.0;
    {
        const float bound = __int_as_float(high);
        float part = 0.0f;
#pragma unroll
        for (int i = 0; i < ITEMS; ++i)
            if (w[i] > bound) part += w[i];
        above = block_sum(static_cast<double>(part), exact[1]);
    }

    if (count <= LIST) {
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            const int bits = __float_as_int(w[i]);
            if (w[i] >= 0.0f && bits > low && bits <= high) {
                const int at = atomicAdd(&found, 1);
                const int token = (i / 4) * SPAN + 4 * tid + i % 4;
                list_w[at] = w[i];
                list_i[at] = token;
                list_x[at] = source[token];
            }
        }
        __syncthreads();
        bool keep = false;
        float own_w = 0.0f;
        int own_i = 0;
        if (tid < count) {
            const float own_x = list_x[tid];
            own_w = list_w[tid];
            own_i = list_i[tid];
            double before = above;
            for (int j = 0; j < count; ++j) {
                const float x = list_x[j];
                if (x > own_x || (x == own_x && list_i[j] < own_i)) before += static_cast<double>(list_w[j]);
            }
            keep = before < target;
        }
        const double kept = above + block_sum(keep ? static_cast<double>(own_w) : 0.0, exact[0]);
        const float scale = static_cast<float>(1.0 / kept);
        const float bound = __int_as_float(high);
#pragma unroll
        for (int g = 0; g < GROUPS; ++g) {
            const int at = g * SPAN + 4 * tid;
            float4 v;
            v.x = w[4 * g] > bound ? w[4 * g] * scale : 0.0f;
            v.y = w[4 * g + 1] > bound ? w[4 * g + 1] * scale : 0.0f;
            v.z = w[4 * g + 2] > bound ? w[4 * g + 2] * scale : 0.0f;
            v.w = w[4 * g + 3] > bound ? w[4 * g + 3] * scale : 0.0f;
            if (aligned) {
                if (at < vocabulary) *reinterpret_cast<float4*>(target_row + at) = v;
            } else {
                if (at < vocabulary) target_row[at] = v.x;
                if (at + 1 < vocabulary) target_row[at + 1] = v.y;
                if (at + 2 < vocabulary) target_row[at + 2] = v.z;
                if (at + 3 < vocabulary) target_row[at + 3] = v.w;
            }
        }
        __syncthreads();
        if (keep) target_row[own_i] = own_w * scale;
    } else {
        // Very many tokens of one weight: the first ones by index stay.
        const float tie = __int_as_float(high);
        double wanted = static_cast<double>(count);
        if (tie > 0.0f) {
            const double room = ceil((target - above) / static_cast<double>(tie));
            wanted = fmin(wanted, fmax(room, 0.0));
        }
        const int quota = static_cast<int>(wanted);
        const double kept = above + static_cast<double>(quota) * static_cast<double>(tie);
        const float scale = static_cast<float>(1.0 / kept);
        int used = 0;
#pragma unroll
        for (int g = 0; g < GROUPS; ++g) {
            int here = 0;
#pragma unroll
            for (int e = 0; e < 4; ++e) here += w[4 * g + e] == tie ? 1 : 0;
            int inclusive = here;
#pragma unroll
            for (int o = 1; o < 32; o <<= 1) {
                const int other = __shfl_up_sync(FULL, inclusive, o);
                if (lane >= o) inclusive += other;
            }
            __syncthreads();
            if (lane == 31) tie_totals[warp] = inclusive;
            __syncthreads();
            int place = used + inclusive - here;
            int total = 0;
            for (int j = 0; j < 32; ++j) {
                if (j < warp) place += tie_totals[j];
                total += tie_totals[j];
            }
            used += total;
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int at = g * SPAN + 4 * tid + e;
                const float v = w[4 * g + e];
                float result = v > tie ? v * scale : 0.0f;
                if (v == tie) {
                    if (place < quota) result = v * scale;
                    ++place;
                }
                if (at < vocabulary) target_row[at] = result;
            }
        }
    }
}

torch::Tensor forward(torch::Tensor logits, torch::Tensor limits) {
    TORCH_CHECK(logits.is_cuda() && logits.scalar_type() == torch::kFloat32 && logits.dim() == 2, "fp32 logits");
    TORCH_CHECK(limits.scalar_type() == torch::kFloat32 && limits.numel() == logits.size(0), "fp32 limits");
    TORCH_CHECK(logits.size(1) <= LIMIT, "rows of at most 32768 tokens");
    logits = logits.contiguous();
    limits = limits.contiguous();
    auto out = torch::empty(logits.sizes(), logits.options());
    if (logits.numel() == 0) return out;
    const int rows = static_cast<int>(logits.size(0)), vocabulary = static_cast<int>(logits.size(1));
    const auto address = reinterpret_cast<uintptr_t>(logits.data_ptr()) | reinterpret_cast<uintptr_t>(out.data_ptr());
    const bool aligned = vocabulary % 4 == 0 && address % 16 == 0;
    const c10::cuda::CUDAGuard guard(logits.device());
    nucleus<<<rows, THREADS, 0, c10::cuda::getCurrentCUDAStream()>>>(logits.data_ptr<float>(),
                                                                     limits.data_ptr<float>(), out.data_ptr<float>(),
                                                                     vocabulary, aligned);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""

CPP_SOURCE = "torch::Tensor forward(torch::Tensor logits, torch::Tensor limits);"

extension = load_inline(
    name="top_p_filter",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["forward"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def forward(self, logits: torch.Tensor, limits: torch.Tensor) -> torch.Tensor:
        return extension.forward(logits, limits)
