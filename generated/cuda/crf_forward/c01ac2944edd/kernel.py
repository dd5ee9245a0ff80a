import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <math_constants.h>

constexpr int WARPS = 4;
constexpr int GROUP = 4;
constexpr unsigned ALL = 0xffffffffu;
constexpr float LOG2E = 1.4426950408889634f;
constexpr double LN2 = 0.6931471805599453;

__device__ __forceinline__ float warp_max(float value) {
    int key = __float_as_int(value);
    key ^= (key >> 31) & 0x7fffffff;
    key = __reduce_max_sync(ALL, key);
    key ^= (key >> 31) & 0x7fffffff;
    return __int_as_float(key);
}

template <int R>
__global__ void __launch_bounds__(WARPS * 32, 1)
crf(const float* __restrict__ emissions, const float* __restrict__ transitions, const float* __restrict__ start,
    float* __restrict__ out, int batch, int length, int states) {
    constexpr int N = 32 * R;
    __shared__ __align__(16) float weights[WARPS][2][N];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int sequence = blockIdx.x * WARPS + warp;
    if (sequence >= batch) return;   // whole warps; only warp-wide synchronisation below
    const float* em = emissions + static_cast<int64_t>(sequence) * length * states;

    float table[N][R], top[R], t[R];
    bool in[R];
#pragma unroll
    for (int r = 0; r < R; ++r) {
        const int j = lane + 32 * r;
        in[r] = j < states;
        top[r] = -CUDART_INF_F;
        t[r] = in[r] ? (start[j] + em[j]) * LOG2E : -CUDART_INF_F;
    }
#pragma unroll
    for (int i = 0; i < N; ++i)
#pragma unroll
        for (int r = 0; r < R; ++r) {
            table[i][r] = i < states && in[r] ? transitions[i * states + lane + 32 * r] * LOG2E : -CUDART_INF_F;
            top[r] = fmaxf(top[r], table[i][r]);
        }
#pragma unroll
    for (int r = 0; r < R; ++r)
        if (top[r] == -CUDART_INF_F) top[r] = 0.0f;
#pragma unroll
    for (int i = 0; i < N; ++i)
#pragma unroll
        for (int r = 0; r < R; ++r) table[i][r] = exp2f(table[i][r] - top[r]);

    float now[GROUP][R], next[GROUP][R];
#pragma unroll
    for (int g = 0; g < GROUP; ++g)
#pragma unroll
        for (int r = 0; r < R; ++r)
            next[g][r] = 1 + g < length && in[r] ? em[static_cast<int64_t>(1 + g) * states + lane + 32 * r] : 0.0f;

    double base = 0.0;
    for (int first = 1; first < length; first += GROUP) {
#pragma unroll
        for (int g = 0; g < GROUP; ++g)
#pragma unroll
            for (int r = 0; r < R; ++r) {
                now[g][r] = next[g][r];
                const int step = first + GROUP + g;
                next[g][r] = step < length && in[r] ? em[static_cast<int64_t>(step) * states + lane + 32 * r] : 0.0f;
            }
#pragma unroll
        for (int g = 0; g < GROUP; ++g) {
            if (first + g < length) {
                float m = t[0];
#pragma unroll
                for (int r = 1; r < R; ++r) m = fmaxf(m, t[r]);
                m = warp_max(m);
                float* shared = weights[warp][g % 2];
#pragma unroll
                for (int r = 0; r < R; ++r) shared[lane + 32 * r] = exp2f(t[r] - m);
                __syncwarp();
                float sum[R][4];
#pragma unroll
                for (int r = 0; r < R; ++r)
#pragma unroll
                    for (int k = 0; k < 4; ++k) sum[r][k] = 0.0f;
#pragma unroll
                for (int i = 0; i < N / 4; ++i) {
                    const float4 p = reinterpret_cast<const float4*>(shared)[i];
#pragma unroll
                    for (int r = 0; r < R; ++r) {
                        sum[r][0] = fmaf(p.x, table[4 * i][r], sum[r][0]);
                        sum[r][1] = fmaf(p.y, table[4 * i + 1][r], sum[r][1]);
                        sum[r][2] = fmaf(p.z, table[4 * i + 2][r], sum[r][2]);
                        sum[r][3] = fmaf(p.w, table[4 * i + 3][r], sum[r][3]);
                    }
                }
                base += static_cast<double>(m);
#pragma unroll
                for (int r = 0; r < R; ++r) {
                    const float s = (sum[r][0] + sum[r][1]) + (sum[r][2] + sum[r][3]);
                    t[r] = log2f(s) + fmaf(now[g][r], LOG2E, top[r]);
                }
            }
        }
    }

    float m = t[0];
#pragma unroll
    for (int r = 1; r < R; ++r) m = fmaxf(m, t[r]);
    m = warp_max(m);
    float s = 0.0f;
#pragma unroll
    for (int r = 0; r < R; ++r) s += exp2f(t[r] - m);
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(ALL, s, o);
    if (lane == 0) out[sequence] = static_cast<float>((base + static_cast<double>(m) + static_cast<double>(log2f(s))) * LN2);
}

// Any number of states: one block a sequence, online log-sum-exp for each state.
__global__ void __launch_bounds__(256)
crf_general(const float* __restrict__ emissions, const float* __restrict__ transitions,
            const float* __restrict__ start, float* __restrict__ out, int length, int states) {
    extern __shared__ float totals[];
    const float* em = emissions + static_cast<int64_t>(blockIdx.x) * length * states;
    for (int j = threadIdx.x; j < states; j += blockDim.x) totals[j] = start[j] + em[j];
    __syncthreads();
    for (int step = 1; step < length; ++step) {
        const float* from = totals + ((step - 1) % 2) * states;
        float* to = totals + (step % 2) * states;
        for (int j = threadIdx.x; j < states; j += blockDim.x) {
            float m = -CUDART_INF_F;
            for (int i = 0; i < states; ++i) m = fmaxf(m, from[i] + transitions[static_cast<int64_t>(i) * states + j]);
            float s = 0.0f;
            for (int i = 0; i < states; ++i) s += expf(from[i] + transitions[static_cast<int64_t>(i) * states + j] - m);
            to[j] = m + logf(s) + em[static_cast<int64_t>(step) * states + j];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        const float* last = totals + ((length - 1) % 2) * states;
        float m = -CUDART_INF_F, s = 0.0f;
        for (int j = 0; j < states; ++j) m = fmaxf(m, last[j]);
        for (int j = 0; j < states; ++j) s += expf(last[j] - m);
        out[blockIdx.x] = m + logf(s);
    }
}

torch::Tensor forward(torch::Tensor emissions, torch::Tensor transitions, torch::Tensor start) {
    TORCH_CHECK(emissions.is_cuda() && emissions.dim() == 3 && emissions.scalar_type() == torch::kFloat32
                && transitions.scalar_type() == torch::kFloat32 && start.scalar_type() == torch::kFloat32, "fp32");
    emissions = emissions.contiguous();
    transitions = transitions.contiguous();
    start = start.contiguous();
    const int batch = static_cast<int>(emissions.size(0)), length = static_cast<int>(emissions.size(1));
    const int states = static_cast<int>(emissions.size(2));
    auto out = torch::empty({batch}, emissions.options());
    if (batch == 0) return out;
    const c10::cuda::CUDAGuard guard(emissions.device());
    auto stream = c10::cuda::getCurrentCUDAStream();
    const float* e = emissions.data_ptr<float>();
    const float* t = transitions.data_ptr<float>();
    const float* s = start.data_ptr<float>();
    const unsigned grid = static_cast<unsigned>((batch + WARPS - 1) / WARPS);
    if (states <= 32) {
        crf<1><<<grid, WARPS * 32, 0, stream>>>(e, t, s, out.data_ptr<float>(), batch, length, states);
    } else if (states <= 64) {
        crf<2><<<grid, WARPS * 32, 0, stream>>>(e, t, s, out.data_ptr<float>(), batch, length, states);
    } else {
        TORCH_CHECK(states <= 6000, "too many states");
        crf_general<<<static_cast<unsigned>(batch), 256, 2 * sizeof(float) * states, stream>>>(
            e, t, s, out.data_ptr<float>(), length, states);
    }
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""

CPP_SOURCE = "torch::Tensor forward(torch::Tensor emissions, torch::Tensor transitions, torch::Tensor start);"

extension = load_inline(
    name="crf_forward",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["forward"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, states: int):
        super().__init__()
        self.transitions = nn.Parameter(torch.randn(states, states))
        self.start = nn.Parameter(torch.randn(states))

    def forward(self, emissions: torch.Tensor) -> torch.Tensor:
        return extension.forward(emissions, self.transitions, self.start)
