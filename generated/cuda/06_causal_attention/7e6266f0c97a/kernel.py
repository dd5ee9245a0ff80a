import math

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

constexpr int THREADS = 128;
constexpr int BM = 64, BN = 64;
constexpr int PP = 80;  // pitch of the probabilities

__device__ __forceinline__ void copy4(float* to, const float* from, bool valid) {
    const unsigned d = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const int n = valid ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(d), "l"(from), "r"(n) : "memory");
}
__device__ __forceinline__ void copy16(float* to, const float* from, bool valid) {
    const unsigned d = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const int n = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(d), "l"(from), "r"(n) : "memory");
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ __forceinline__ void wait_groups() {
    asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory");
}

// 64 rows of DP columns, zeros outside of the matrix.
template <int DP, int PITCH>
__device__ __forceinline__ void load_tile(float* to, const float* from, int first, int length, int d, bool vec) {
    if (vec) {
        for (int e = threadIdx.x; e < 64 * DP / 4; e += THREADS) {
            const int r = e / (DP / 4), c = e % (DP / 4) * 4;
            const bool ok = first + r < length && c < d;
            copy16(to + r * PITCH + c, ok ? from + static_cast<int64_t>(first + r) * d + c : from, ok);
        }
    } else {
        for (int e = threadIdx.x; e < 64 * DP; e += THREADS) {
            const int r = e / DP, c = e % DP;
            const bool ok = first + r < length && c < d;
            copy4(to + r * PITCH + c, ok ? from + static_cast<int64_t>(first + r) * d + c : from, ok);
        }
    }
}

template <int DP>
__global__ void __launch_bounds__(THREADS, DP <= 64 ? 3 : 1)
attention(const float* __restrict__ query, const float* __restrict__ key, const float* __restrict__ value,
          float* __restrict__ out, int heads, int length, int d, float scale_log2, int vec) {
    constexpr int PITCH = DP + 4;
    constexpr int GROUPS = DP >= 64 ? DP / 64 : 1;  // groups of neighbouring output columns a thread holds
    constexpr int W = DP >= 64 ? 4 : DP / 16;       // their width
    extern __shared__ __align__(16) float smem[];
    float* qs = smem;
    float* ks = qs + BM * PITCH;
    float* vs = ks + BN * PITCH;
    float* ps = vs + BN * DP;

    const int tiles = (length + BM - 1) / BM;
    const int tile = tiles - 1 - blockIdx.x / heads;  // the longest first
    const int64_t head = blockIdx.x % heads;
    const int64_t base = head * length * d;
    const int q0 = tile * BM;
    const int tx = threadIdx.x & 15, ty = threadIdx.x >> 4;  // rows ty + 8 i, keys tx + 16 j

    load_tile<DP, PITCH>(qs, query + base, q0, length, d, vec);
    load_tile<DP, PITCH>(ks, key + base, 0, length, d, vec);
    commit();
    load_tile<DP, DP>(vs, value + base, 0, length, d, vec);
    commit();

    float o[8][GROUPS][W], m[8], l[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        m[i] = -INFINITY;
        l[i] = 0.0f;
#pragma unroll
        for (int g = 0; g < GROUPS; g++)
#pragma unroll
            for (int c = 0; c < W; c++) o[i][g][c] = 0.0f;
    }

    for (int kt = 0; kt <= tile; kt++) {
        wait_groups<1>();
        __syncthreads();  // queries and keys are there
        float s[8][4];
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) s[i][j] = 0.0f;
#pragma unroll 4
        for (int c = 0; c < DP; c += 4) {
            float4 k[4];
#pragma unroll
            for (int j = 0; j < 4; j++) k[j] = *reinterpret_cast<const float4*>(ks + (tx + 16 * j) * PITCH + c);
#pragma unroll
            for (int i = 0; i < 8; i++) {
                const float4 q = *reinterpret_cast<const float4*>(qs + (ty + 8 * i) * PITCH + c);
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    s[i][j] = fmaf(q.x, k[j].x, s[i][j]);
                    s[i][j] = fmaf(q.y, k[j].y, s[i][j]);
                    s[i][j] = fmaf(q.z, k[j].z, s[i][j]);
                    s[i][j] = fmaf(q.w, k[j].w, s[i][j]);
                }
            }
        }
        __syncthreads();  // the keys are used up
        if (kt < tile) load_tile<DP, PITCH>(ks, key + base, (kt + 1) * BN, length, d, vec);
        commit();

        if (kt == tile) {
#pragma unroll
            for (int i = 0; i < 8; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    if (tx + 16 * j > ty + 8 * i) s[i][j] = -INFINITY;
        }
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float top = fmaxf(fmaxf(s[i][0], s[i][1]), fmaxf(s[i][2], s[i][3]));
#pragma unroll
            for (int x = 8; x > 0; x >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, x));
            const float now = fmaxf(m[i], top);
            const float shrink = exp2f((m[i] - now) * scale_log2);
            m[i] = now;
            float sum = 0.0f;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float p = exp2f((s[i][j] - now) * scale_log2);
                ps[(ty + 8 * i) * PP + tx + 16 * j] = p;
                sum += p;
            }
            l[i] = fmaf(l[i], shrink, sum);
#pragma unroll
            for (int g = 0; g < GROUPS; g++)
#pragma unroll
                for (int c = 0; c < W; c++) o[i][g][c] *= shrink;
        }

        wait_groups<1>();
        __syncthreads();  // values and probabilities are there
#pragma unroll 2
        for (int n = 0; n < BN; n += 4) {
            float v[4][GROUPS][W];
#pragma unroll
            for (int r = 0; r < 4; r++)
#pragma unroll
                for (int g = 0; g < GROUPS; g++) {
                    const float* from = vs + (n + r) * DP + g * 64 + tx * W;
                    if (W == 4) {
                        const float4 a = *reinterpret_cast<const float4*>(from);
                        v[r][g][0] = a.x; v[r][g][1] = a.y; v[r][g][W - 2] = a.z; v[r][g][W - 1] = a.w;
                    } else {
                        const float2 a = *reinterpret_cast<const float2*>(from);
                        v[r][g][0] = a.x; v[r][g][1] = a.y;
                    }
                }
#pragma unroll
            for (int i = 0; i < 8; i++) {
                const float4 p = *reinterpret_cast<const float4*>(ps + (ty + 8 * i) * PP + n);
#pragma unroll
                for (int g = 0; g < GROUPS; g++)
#pragma unroll
                    for (int c = 0; c < W; c++) {
                        o[i][g][c] = fmaf(p.x, v[0][g][c], o[i][g][c]);
                        o[i][g][c] = fmaf(p.y, v[1][g][c], o[i][g][c]);
                        o[i][g][c] = fmaf(p.z, v[2][g][c], o[i][g][c]);
                        o[i][g][c] = fmaf(p.w, v[3][g][c], o[i][g][c]);
                    }
            }
        }
        __syncthreads();  // the values are used up
        if (kt < tile) load_tile<DP, DP>(vs, value + base, (kt + 1) * BN, length, d, vec);
        commit();
    }

#pragma unroll
    for (int i = 0; i < 8; i++) {
        float sum = l[i];
#pragma unroll
        for (int x = 8; x > 0; x >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, x);
        const float inverse = 1.0f / sum;
        const int row = q0 + ty + 8 * i;
        if (row < length) {
#pragma unroll
            for (int g = 0; g < GROUPS; g++) {
                const int c0 = g * 64 + tx * W;
                float* to = out + base + static_cast<int64_t>(row) * d + c0;
                if (W == 4 && vec) {
                    if (c0 < d)
                        *reinterpret_cast<float4*>(to) =
                            make_float4(o[i][g][0] * inverse, o[i][g][1] * inverse, o[i][g][W - 2] * inverse,
                                        o[i][g][W - 1] * inverse);
                } else {
#pragma unroll
                    for (int c = 0; c < W; c++)
                        if (c0 + c < d) to[c] = o[i][g][c] * inverse;
                }
            }
        }
    }
}

template <int DP>
void launch(const float* q, const float* k, const float* v, float* out, int64_t heads, int length, int d, float scale,
            bool vec, cudaStream_t stream) {
    const int bytes = ((BM + BN) * (DP + 4) + BN * DP + BM * PP) * 4;
    C10_CUDA_CHECK(cudaFuncSetAttribute(attention<DP>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    const unsigned grid = static_cast<unsigned>(heads * ((length + BM - 1) / BM));
    attention<DP><<<grid, THREADS, bytes, stream>>>(q, k, v, out, static_cast<int>(heads), length, d, scale,
                                                    vec ? 1 : 0);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

torch::Tensor forward(torch::Tensor query, torch::Tensor key, torch::Tensor value, double scale) {
    TORCH_CHECK(query.is_cuda() && query.dim() >= 2 && query.scalar_type() == torch::kFloat32 &&
                key.scalar_type() == torch::kFloat32 && value.scalar_type() == torch::kFloat32, "fp32 inputs");
    TORCH_CHECK(query.sizes() == key.sizes() && query.sizes() == value.sizes(), "three equal shapes");
    query = query.contiguous();
    key = key.contiguous();
    value = value.contiguous();
    const c10::cuda::CUDAGuard guard(query.device());
    auto out = torch::empty(query.sizes(), query.options());
    if (out.numel() == 0) return out;
    const int d = static_cast<int>(query.size(-1)), length = static_cast<int>(query.size(-2));
    const int64_t heads = query.numel() / (static_cast<int64_t>(d) * length);
    TORCH_CHECK(d <= 128, "at most 128 features a head");
    const float* q = query.data_ptr<float>();
    const float* k = key.data_ptr<float>();
    const float* v = value.data_ptr<float>();
    float* o = out.data_ptr<float>();
    const bool vec = d % 4 == 0 && (reinterpret_cast<uintptr_t>(q) | reinterpret_cast<uintptr_t>(k) |
                                    reinterpret_cast<uintptr_t>(v) | reinterpret_cast<uintptr_t>(o)) % 16 == 0;
    const float scale_log2 = static_cast<float>(scale * 1.4426950408889634);
    cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
    if (d <= 32) launch<32>(q, k, v, o, heads, length, d, scale_log2, vec, stream);
    else if (d <= 64) launch<64>(q, k, v, o, heads, length, d, scale_log2, vec, stream);
    else launch<128>(q, k, v, o, heads, length, d, scale_log2, vec, stream);
    return out;
}
"""

CPP_SOURCE = "torch::Tensor forward(torch::Tensor query, torch::Tensor key, torch::Tensor value, double scale);"

extension = load_inline(
    name="causal_attention",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["forward"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return extension.forward(query, key, value, 1.0 / math.sqrt(query.shape[-1]))
