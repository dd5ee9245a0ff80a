import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cmath>

constexpr int THREADS = 512, WARPS = THREADS / 32, ITEMS = 32, CHUNK = THREADS * ITEMS, MERGE_ITEMS = 8;
constexpr unsigned FULL = 0xffffffffu;

__device__ __forceinline__ float minus_infinity() { return __int_as_float(0xff800000); }

__device__ __forceinline__ float warp_max(float v) {
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) v = fmaxf(v, __shfl_xor_sync(FULL, v, o));
    return v;
}
__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(FULL, v, o);
    return v;
}
__device__ __forceinline__ int warp_sum(int v) {
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(FULL, v, o);
    return v;
}

struct Shared {
    float groups[32];
    float sums[WARPS];
    float best[WARPS];
    int counts[WARPS];
    int found;
    float list[THREADS];
};

// Writes the k largest of the block's N * THREADS values, descending; returns (maximum, sum of exponentials).
template <int N, bool SUM>
__device__ __forceinline__ float2 select(const float (&x)[N], int k, float* __restrict__ out, Shared& s) {
    const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
    float mine = x[0];
#pragma unroll
    for (int i = 1; i < N; ++i) mine = fmaxf(mine, x[i]);
#pragma unroll
    for (int o = 8; o > 0; o >>= 1) mine = fmaxf(mine, __shfl_xor_sync(FULL, mine, o));
    if (tid == 0) s.found = 0;
    if ((tid & 15) == 0) s.groups[tid >> 4] = mine;
    __syncthreads();
    const float group = s.groups[lane];
    const float top = warp_max(group);
    int rank = 0;
#pragma unroll
    for (int j = 0; j < 32; ++j) {
        const float other = __shfl_sync(FULL, group, j);
        rank += (other > group || (other == group && j < lane)) ? 1 : 0;
    }
    const unsigned holder = __ballot_sync(FULL, rank == k - 1);
    const float bound = __shfl_sync(FULL, group, holder ? __ffs(holder) - 1 : 0);

    const float shift = top == minus_infinity() ? 0.0f : top;
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        if (SUM) sum += expf(x[i] - shift);
        if (x[i] > bound) {
            const int at = atomicAdd(&s.found, 1);
            if (at < THREADS) s.list[at] = x[i];
        }
    }
    if (SUM) {
        sum = warp_sum(sum);
        if (lane == 0) s.sums[warp] = sum;
    }
    __syncthreads();
    const int found = s.found;
    if (found <= THREADS) {
        if (tid < found) {
            const float v = s.list[tid];
            int place = 0;
            for (int j = 0; j < found; ++j) {
                const float other = s.list[j];
                place += (other > v || (other == v && j < tid)) ? 1 : 0;
            }
            if (place < k) out[place] = v;
        }
        for (int i = found + tid; i < k; i += THREADS) out[i] = bound;
    } else {
        // Rare: repeated maxima with their multiplicities.
        float before = __int_as_float(0x7f800000);
        int filled = 0;
        while (filled < k) {
            float best = minus_infinity();
#pragma unroll
            for (int i = 0; i < N; ++i)
                if (x[i] < before) best = fmaxf(best, x[i]);
            best = warp_max(best);
            if (lane == 0) s.best[warp] = best;
            __syncthreads();
            best = s.best[0];
            for (int w = 1; w < WARPS; ++w) best = fmaxf(best, s.best[w]);
            int count = 0;
#pragma unroll
            for (int i = 0; i < N; ++i) count += x[i] == best ? 1 : 0;
            count = warp_sum(count);
            if (lane == 0) s.counts[warp] = count;
            __syncthreads();
            count = 0;
            for (int w = 0; w < WARPS; ++w) count += s.counts[w];
            if (best == minus_infinity()) count = k;
            const int end = min(k, filled + count);
            for (int i = filled + tid; i < end; i += THREADS) out[i] = best;
            filled = end;
            before = best;
            __syncthreads();
        }
    }
    float total = 0.0f;
    if (SUM) {
#pragma unroll
        for (int w = 0; w < WARPS; ++w) total += s.sums[w];
    }
    return make_float2(top, total);
}

__global__ void __launch_bounds__(THREADS, 2)
scan_rows(const float* __restrict__ logits, float* __restrict__ values, float2* __restrict__ sums, int vocabulary,
          int splits, int k, bool aligned) {
    __shared__ Shared s;
    const int row = blockIdx.x / splits, split = blockIdx.x % splits;
    const float* source = logits + static_cast<int64_t>(row) * vocabulary;
    const int begin = split * CHUNK;
    float x[ITEMS];
    if (aligned) {
#pragma unroll
        for (int i = 0; i < ITEMS / 4; ++i) {
            const int at = begin + (i * THREADS + static_cast<int>(threadIdx.x)) * 4;
            float4 v = make_float4(minus_infinity(), minus_infinity(), minus_infinity(), minus_infinity());
            if (at < vocabulary) v = __ldcs(reinterpret_cast<const float4*>(source + at));
            x[4 * i] = v.x;
            x[4 * i + 1] = v.y;
            x[4 * i + 2] = v.z;
            x[4 * i + 3] = v.w;
        }
    } else {
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            const int at = begin + i * THREADS + static_cast<int>(threadIdx.x);
            x[i] = at < vocabulary ? source[at] : minus_infinity();
        }
    }
    const float2 result = select<ITEMS, true>(x, k, values + static_cast<int64_t>(blockIdx.x) * k, s);
    if (threadIdx.x == 0) sums[blockIdx.x] = result;
}

__global__ void __launch_bounds__(THREADS)
merge_beams(const float* __restrict__ values, const float2* __restrict__ sums, const float* __restrict__ totals,
            float* __restrict__ out, int beams, int splits, int k) {
    __shared__ Shared s;
    extern __shared__ float row_data[];  // maximum, logarithm of the sum, total of each beam
    float* row_max = row_data;
    float* row_log = row_data + beams;
    float* row_total = row_data + 2 * beams;
    const int batch = blockIdx.x;
    for (int r = threadIdx.x; r < beams; r += THREADS) {
        const float2* part = sums + (static_cast<int64_t>(batch) * beams + r) * splits;
        float top = part[0].x;
        for (int i = 1; i < splits; ++i) top = fmaxf(top, part[i].x);
        float sum = 0.0f;
        for (int i = 0; i < splits; ++i) sum += part[i].x == minus_infinity() ? 0.0f : part[i].y * expf(part[i].x - top);
        row_max[r] = top;
        row_log[r] = logf(sum);
        row_total[r] = totals[static_cast<int64_t>(batch) * beams + r];
    }
    __syncthreads();
    const int per_row = splits * k, count = beams * per_row;
    const float* source = values + static_cast<int64_t>(batch) * count;
    float x[MERGE_ITEMS];
#pragma unroll
    for (int i = 0; i < MERGE_ITEMS; ++i) {
        const int at = i * THREADS + static_cast<int>(threadIdx.x);
        x[i] = minus_infinity();
        if (at < count) {
            const int r = at / per_row;
            x[i] = row_total[r] + ((source[at] - row_max[r]) - row_log[r]);
        }
    }
    select<MERGE_ITEMS, false>(x, k, out + static_cast<int64_t>(batch) * k, s);
}

torch::Tensor forward(torch::Tensor logits, torch::Tensor totals, int64_t chosen) {
    TORCH_CHECK(logits.is_cuda() && logits.scalar_type() == torch::kFloat32 && logits.dim() == 3, "fp32 logits");
    TORCH_CHECK(totals.scalar_type() == torch::kFloat32 && chosen >= 1 && chosen <= 32, "fp32 totals, at most 32");
    logits = logits.contiguous();
    totals = totals.contiguous();
    const int batch = static_cast<int>(logits.size(0)), beams = static_cast<int>(logits.size(1));
    const int vocabulary = static_cast<int>(logits.size(2)), k = static_cast<int>(chosen);
    auto out = torch::empty({batch, k}, logits.options());
    if (batch == 0) return out;
    const int splits = (vocabulary + CHUNK - 1) / CHUNK;
    TORCH_CHECK(static_cast<int64_t>(beams) * splits * k <= MERGE_ITEMS * THREADS, "too many candidates");
    const c10::cuda::CUDAGuard guard(logits.device());
    const auto stream = c10::cuda::getCurrentCUDAStream();
    const int blocks = batch * beams * splits;
    auto values = torch::empty({blocks, k}, logits.options());
    auto sums = torch::empty({blocks, 2}, logits.options());
    const bool aligned = vocabulary % 4 == 0 && reinterpret_cast<uintptr_t>(logits.data_ptr()) % 16 == 0;
    scan_rows<<<blocks, THREADS, 0, stream>>>(logits.data_ptr<float>(), values.data_ptr<float>(),
                                              reinterpret_cast<float2*>(sums.data_ptr<float>()), vocabulary, splits, k,
                                              aligned);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    merge_beams<<<batch, THREADS, 3 * beams * sizeof(float), stream>>>(
        values.data_ptr<float>(), reinterpret_cast<const float2*>(sums.data_ptr<float>()), totals.data_ptr<float>(),
        out.data_ptr<float>(), beams, splits, k);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""

CPP_SOURCE = "torch::Tensor forward(torch::Tensor logits, torch::Tensor totals, int64_t chosen);"

extension = load_inline(
    name="beam_step",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["forward"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, chosen: int):
        super().__init__()
        self.chosen = chosen

    def forward(self, logits: torch.Tensor, totals: torch.Tensor) -> torch.Tensor:
        return extension.forward(logits, totals, self.chosen)
