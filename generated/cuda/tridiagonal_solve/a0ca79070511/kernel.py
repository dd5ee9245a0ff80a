import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

constexpr int THREADS = 128;
constexpr int WARPS = THREADS / 32;
constexpr int SIDE = 512;   // rows a warp
constexpr int EACH = 16;    // rows a lane
constexpr unsigned ALL = 0xffffffffu;

struct Row {
    float l, m, u, r, inverse;
};

// numerator / denominator, from the rounded reciprocal of the denominator
__device__ __forceinline__ float quotient(float numerator, float denominator, float inverse) {
    const float q = numerator * inverse;
    return fmaf(fmaf(-q, denominator, numerator), inverse, q);
}

__device__ __forceinline__ Row shuffled_up(const Row& x) {
    Row y;
    y.l = __shfl_up_sync(ALL, x.l, 1);
    y.m = __shfl_up_sync(ALL, x.m, 1);
    y.u = __shfl_up_sync(ALL, x.u, 1);
    y.r = __shfl_up_sync(ALL, x.r, 1);
    y.inverse = __shfl_up_sync(ALL, x.inverse, 1);
    return y;
}

__device__ __forceinline__ Row shuffled_down(const Row& x) {
    Row y;
    y.l = __shfl_down_sync(ALL, x.l, 1);
    y.m = __shfl_down_sync(ALL, x.m, 1);
    y.u = __shfl_down_sync(ALL, x.u, 1);
    y.r = __shfl_down_sync(ALL, x.r, 1);
    y.inverse = __shfl_down_sync(ALL, x.inverse, 1);
    return y;
}

// One step on rows that lie D apart in the lane. With ACROSS the lane holds consecutive rows, and neighbours
// beyond its ends are in the next lanes; otherwise there are none beyond its ends.
template <int D, bool ACROSS>
__device__ __forceinline__ void step(float (&L)[EACH], float (&M)[EACH], float (&U)[EACH], float (&R)[EACH],
                                     int lane) {
    constexpr int N = EACH / D;
#pragma unroll
    for (int c = 0; c < D; ++c) {
        Row old[N];
#pragma unroll
        for (int n = 0; n < N; ++n) {
            const int j = c + n * D;
            old[n].l = L[j];
            old[n].m = M[j];
            old[n].u = U[j];
            old[n].r = R[j];
            old[n].inverse = __frcp_rn(M[j]);
        }
        Row below{0.0f, 1.0f, 0.0f, 0.0f, 1.0f}, above{0.0f, 1.0f, 0.0f, 0.0f, 1.0f};
        if (ACROSS) {
            below = shuffled_up(old[N - 1]);
            above = shuffled_down(old[0]);
        }
#pragma unroll
        for (int n = 0; n < N; ++n) {
            const int j = c + n * D;
            const bool has_below = ACROSS || n > 0, has_above = ACROSS || n < N - 1;
            const Row& x = old[n];
            float l = 0.0f, m = x.m, u = 0.0f, r = x.r;
            if (has_below) {
                const Row& p = n > 0 ? old[n > 0 ? n - 1 : 0] : below;
                float before = quotient(-x.l, p.m, p.inverse);
                if (n == 0) before = lane == 0 ? 0.0f : before;
                r = fmaf(before, p.r, r);
                m = fmaf(before, p.u, m);
                l = before * p.l;
            }
            if (has_above) {
                const Row& p = n < N - 1 ? old[n < N - 1 ? n + 1 : 0] : above;
                float after = quotient(-x.u, p.m, p.inverse);
                if (n == N - 1) after = lane == 31 && ACROSS ? 0.0f : after;
                r = fmaf(after, p.r, r);
                m = fmaf(after, p.l, m);
                u = after * p.u;
            }
            L[j] = l;
            M[j] = m;
            U[j] = u;
            R[j] = r;
        }
    }
}

__device__ __forceinline__ bool coupled(const float (&L)[EACH], const float (&U)[EACH]) {
    bool any = false;
#pragma unroll
    for (int k = 0; k < EACH; ++k) any = any || L[k] != 0.0f || U[k] != 0.0f;
    return __any_sync(ALL, any);
}

// Place of a group of four rows in shared memory, free of bank conflicts for all three ways of access.
__device__ __forceinline__ int place(int quad) { return quad ^ ((quad >> 3) & 3); }

template <bool FULL>
__device__ __forceinline__ void fetch(const float* __restrict__ source, float4* buffer, int lane, int side,
                                      float outside) {
    if (FULL) {
        float4 x[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) x[k] = __ldcs(reinterpret_cast<const float4*>(source) + k * 32 + lane);
#pragma unroll
        for (int k = 0; k < 4; ++k) buffer[place(k * 32 + lane)] = x[k];
    } else {
        float* scalars = reinterpret_cast<float*>(buffer);
#pragma unroll 4
        for (int k = 0; k < EACH; ++k) {
            const int e = k * 32 + lane;
            scalars[place(e >> 2) * 4 + (e & 3)] = e < side ? source[e] : outside;
        }
    }
}

__device__ __forceinline__ void consecutive(const float4* buffer, float (&X)[EACH], int lane) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const float4 x = buffer[place(lane * 4 + k)];
        X[4 * k] = x.x;
        X[4 * k + 1] = x.y;
        X[4 * k + 2] = x.z;
        X[4 * k + 3] = x.w;
    }
}

__device__ __forceinline__ void put_back(float4* buffer, const float (&X)[EACH], int lane) {
#pragma unroll
    for (int k = 0; k < 4; ++k)
        buffer[place(lane * 4 + k)] = make_float4(X[4 * k], X[4 * k + 1], X[4 * k + 2], X[4 * k + 3]);
}

__device__ __forceinline__ void dealt(const float4* buffer, float (&X)[EACH], int lane) {
    const float* scalars = reinterpret_cast<const float*>(buffer);
#pragma unroll
    for (int k = 0; k < EACH; ++k) X[k] = scalars[place(k * 8 + (lane >> 2)) * 4 + (lane & 3)];
}

template <bool FULL>
__global__ void __launch_bounds__(THREADS, 3)
solve(const float* __restrict__ lower, const float* __restrict__ middle, const float* __restrict__ upper,
      const float* __restrict__ right, float* __restrict__ out, int64_t systems, int side) {
    __shared__ float4 shared[WARPS][4][SIDE / 4];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int64_t system = static_cast<int64_t>(blockIdx.x) * WARPS + warp;
    if (system >= systems) return;  // whole warps; there is no barrier of the block
    const int64_t base = system * side;
    float4(*buffer)[SIDE / 4] = shared[warp];
    fetch<FULL>(lower + base, buffer[0], lane, side, 0.0f);
    fetch<FULL>(middle + base, buffer[1], lane, side, 1.0f);
    fetch<FULL>(upper + base, buffer[2], lane, side, 0.0f);
    fetch<FULL>(right + base, buffer[3], lane, side, 0.0f);
    __syncwarp();
    float L[EACH], M[EACH], U[EACH], R[EACH];
    consecutive(buffer[0], L, lane);
    consecutive(buffer[1], M, lane);
    consecutive(buffer[2], U, lane);
    consecutive(buffer[3], R, lane);
    if (lane == 0) L[0] = 0.0f;
    if (FULL) {
        if (lane == 31) U[EACH - 1] = 0.0f;
    } else {
#pragma unroll
        for (int k = 0; k < EACH; ++k)
            if (lane * EACH + k == side - 1) U[k] = 0.0f;
    }
    step<1, true>(L, M, U, R, lane);
    step<2, true>(L, M, U, R, lane);
    step<4, true>(L, M, U, R, lane);
    step<8, true>(L, M, U, R, lane);
    step<16, true>(L, M, U, R, lane);
    __syncwarp();
    put_back(buffer[0], L, lane);
    put_back(buffer[1], M, lane);
    put_back(buffer[2], U, lane);
    put_back(buffer[3], R, lane);
    __syncwarp();
    dealt(buffer[0], L, lane);
    dealt(buffer[1], M, lane);
    dealt(buffer[2], U, lane);
    dealt(buffer[3], R, lane);
    step<1, false>(L, M, U, R, lane);
    if (coupled(L, U)) {
        step<2, false>(L, M, U, R, lane);
        if (coupled(L, U)) {
            step<4, false>(L, M, U, R, lane);
            if (coupled(L, U)) step<8, false>(L, M, U, R, lane);
        }
    }
#pragma unroll
    for (int k = 0; k < EACH; ++k) {
        const int e = k * 32 + lane;
        if (FULL || e < side) __stcs(out + base + e, R[k] / M[k]);
    }
}

// Longer systems: a block each, two copies in shared memory.
__global__ void solve_long(const float* __restrict__ lower, const float* __restrict__ middle,
                           const float* __restrict__ upper, const float* __restrict__ right,
                           float* __restrict__ out, int side) {
    extern __shared__ float scratch[];
    const int64_t base = static_cast<int64_t>(blockIdx.x) * side;
    float* now = scratch;
    float* then = scratch + 4 * static_cast<int64_t>(side);
    for (int i = threadIdx.x; i < side; i += blockDim.x) {
        now[i] = i > 0 ? lower[base + i] : 0.0f;
        now[side + i] = middle[base + i];
        now[2 * side + i] = i < side - 1 ? upper[base + i] : 0.0f;
        now[3 * side + i] = right[base + i];
    }
    __syncthreads();
    for (int span = 1; span < side; span *= 2) {
        for (int i = threadIdx.x; i < side; i += blockDim.x) {
            float l = 0.0f, m = now[side + i], u = 0.0f, r = now[3 * side + i];
            if (i >= span) {
                const int p = i - span;
                const float before = -now[i] / now[side + p];
                r = fmaf(before, now[3 * side + p], r);
                m = fmaf(before, now[2 * side + p], m);
                l = before * now[p];
            }
            if (i + span < side) {
                const int p = i + span;
                const float after = -now[2 * side + i] / now[side + p];
                r = fmaf(after, now[3 * side + p], r);
                m = fmaf(after, now[p], m);
                u = after * now[2 * side + p];
            }
            then[i] = l;
            then[side + i] = m;
            then[2 * side + i] = u;
            then[3 * side + i] = r;
        }
        __syncthreads();
        float* other = now;
        now = then;
        then = other;
    }
    for (int i = threadIdx.x; i < side; i += blockDim.x) out[base + i] = now[3 * side + i] / now[side + i];
}

torch::Tensor forward(torch::Tensor lower, torch::Tensor middle, torch::Tensor upper, torch::Tensor right) {
    for (const auto& each : {lower, middle, upper, right})
        TORCH_CHECK(each.is_cuda() && each.scalar_type() == torch::kFloat32 && each.sizes() == middle.sizes(),
                    "four equal fp32 inputs");
    lower = lower.contiguous();
    middle = middle.contiguous();
    upper = upper.contiguous();
    right = right.contiguous();
    const c10::cuda::CUDAGuard guard(middle.device());
    auto out = torch::empty(middle.sizes(), middle.options());
    if (middle.numel() == 0) return out;
    const int64_t wide = middle.size(-1);
    TORCH_CHECK(wide <= 7264, "systems of at most 7264 rows");
    const int side = static_cast<int>(wide);
    const int64_t systems = middle.numel() / side;
    const auto stream = c10::cuda::getCurrentCUDAStream();
    const auto address =
        reinterpret_cast<uintptr_t>(lower.data_ptr()) | reinterpret_cast<uintptr_t>(middle.data_ptr()) |
        reinterpret_cast<uintptr_t>(upper.data_ptr()) | reinterpret_cast<uintptr_t>(right.data_ptr());
    const unsigned blocks = static_cast<unsigned>((systems + WARPS - 1) / WARPS);
    if (side == SIDE && address % 16 == 0) {
        solve<true><<<blocks, THREADS, 0, stream>>>(lower.data_ptr<float>(), middle.data_ptr<float>(),
                                                    upper.data_ptr<float>(), right.data_ptr<float>(),
                                                    out.data_ptr<float>(), systems, side);
    } else if (side <= SIDE) {
        solve<false><<<blocks, THREADS, 0, stream>>>(lower.data_ptr<float>(), middle.data_ptr<float>(),
                                                     upper.data_ptr<float>(), right.data_ptr<float>(),
                                                     out.data_ptr<float>(), systems, side);
    } else {
        const int bytes = side * 32;
        C10_CUDA_CHECK(cudaFuncSetAttribute(solve_long, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
        solve_long<<<static_cast<unsigned>(systems), 512, bytes, stream>>>(
            lower.data_ptr<float>(), middle.data_ptr<float>(), upper.data_ptr<float>(), right.data_ptr<float>(),
            out.data_ptr<float>(), side);
    }
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""

CPP_SOURCE = (
    "torch::Tensor forward(torch::Tensor lower, torch::Tensor middle, torch::Tensor upper, torch::Tensor right);"
)

extension = load_inline(
    name="tridiagonal_solve_registers",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["forward"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def forward(
        self, lower: torch.Tensor, middle: torch.Tensor, upper: torch.Tensor, right: torch.Tensor
    ) -> torch.Tensor:
        return extension.forward(lower, middle, upper, right)
