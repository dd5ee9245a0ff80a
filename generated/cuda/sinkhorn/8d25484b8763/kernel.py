import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

constexpr unsigned ALL = 0xffffffffu;
constexpr int SIDE = 256;
constexpr int WARPS = 16;
constexpr int THREADS = WARPS * 32;
constexpr int HALF = 8;  // rows of a warp in registers, and as many in shared memory
constexpr float SPREAD = 24.0f;

__device__ __forceinline__ float warp_max(float v) {
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) v = fmaxf(v, __shfl_xor_sync(ALL, v, offset));
    return v;
}

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) v += __shfl_xor_sync(ALL, v, offset);
    return v;
}

// Any side and any costs: logarithms throughout. left and right are shared arrays of `side`.
__device__ __noinline__ void log_domain(const float* costs, const float* rows, const float* columns, float* out,
                                        float* left, float* right, int side, int iterations) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    for (int i = threadIdx.x; i < side; i += blockDim.x) left[i] = right[i] = 0.0f;
    __syncthreads();
    for (int step = 0; step < iterations; ++step) {
        for (int i = warp; i < side; i += warps) {
            const float* c = costs + static_cast<int64_t>(i) * side;
            float high = -INFINITY;
            for (int j = lane; j < side; j += 32) high = fmaxf(high, right[j] - c[j]);
            high = warp_max(high);
            float sum = 0.0f;
            for (int j = lane; j < side; j += 32) sum += expf(right[j] - c[j] - high);
            sum = warp_sum(sum);
            if (lane == 0) left[i] = rows[i] - (high + logf(sum));
        }
        __syncthreads();
        for (int j = threadIdx.x; j < side; j += blockDim.x) {
            const float* c = costs + j;
            float high = -INFINITY;
#pragma unroll 8
            for (int i = 0; i < side; ++i) high = fmaxf(high, left[i] - c[static_cast<int64_t>(i) * side]);
            float sum = 0.0f;
#pragma unroll 8
            for (int i = 0; i < side; ++i) sum += expf(left[i] - c[static_cast<int64_t>(i) * side] - high);
            right[j] = columns[j] - (high + logf(sum));
        }
        __syncthreads();
    }
    for (int i = threadIdx.x; i < side; i += blockDim.x) {
        out[i] = left[i];
        out[side + i] = right[i];
    }
}

__global__ void __launch_bounds__(256)
sinkhorn_any(const float* __restrict__ costs, const float* __restrict__ rows, const float* __restrict__ columns,
             float* __restrict__ out, int side, int iterations) {
    extern __shared__ float4 shared[];
    float* left = reinterpret_cast<float*>(shared);
    const int64_t item = blockIdx.x;
    log_domain(costs + item * side * side, rows + item * side, columns + item * side, out + item * 2 * side, left,
               left + side, side, iterations);
}

// Sums of eight values over the warp; a lane gets that of number (lane >> 2) & 7.
__device__ __forceinline__ float sum8(float (&s)[8], int lane) {
    bool upper = lane & 16;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float keep = upper ? s[i + 4] : s[i], send = upper ? s[i] : s[i + 4];
        s[i] = keep + __shfl_xor_sync(ALL, send, 16);
    }
    upper = lane & 8;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const float keep = upper ? s[i + 2] : s[i], send = upper ? s[i] : s[i + 2];
        s[i] = keep + __shfl_xor_sync(ALL, send, 8);
    }
    upper = lane & 4;
    const float keep = upper ? s[1] : s[0], send = upper ? s[0] : s[1];
    float sum = keep + __shfl_xor_sync(ALL, send, 4);
    sum += __shfl_xor_sync(ALL, sum, 2);
    sum += __shfl_xor_sync(ALL, sum, 1);
    return sum;
}

__device__ __forceinline__ float dot8(const float (&k)[8], const float (&v)[8]) {
    float a = k[0] * v[0], b = k[4] * v[4];
#pragma unroll
    for (int i = 1; i < 4; ++i) {
        a = fmaf(k[i], v[i], a);
        b = fmaf(k[i + 4], v[i + 4], b);
    }
    return a + b;
}

__device__ __forceinline__ void load8(float (&k)[8], const float* row, int lane) {
    const float4 a = reinterpret_cast<const float4*>(row)[lane];
    const float4 b = reinterpret_cast<const float4*>(row)[32 + lane];
    k[0] = a.x; k[1] = a.y; k[2] = a.z; k[3] = a.w;
    k[4] = b.x; k[5] = b.y; k[6] = b.z; k[7] = b.w;
}

__device__ __forceinline__ void store8(float* row, const float (&k)[8], int lane) {
    reinterpret_cast<float4*>(row)[lane] = make_float4(k[0], k[1], k[2], k[3]);
    reinterpret_cast<float4*>(row)[32 + lane] = make_float4(k[4], k[5], k[6], k[7]);
}

constexpr int SHARED_FLOATS = WARPS * HALF * SIDE + WARPS * SIDE + SIDE + SIDE + 4 * WARPS;

__global__ void __launch_bounds__(THREADS, 1)
sinkhorn256(const float* __restrict__ costs, const float* __restrict__ rows, const float* __restrict__ columns,
            float* __restrict__ out, int iterations) {
    extern __shared__ float4 shared[];
    __shared__ int star;
    __shared__ float offset_shared;
    float* kernel = reinterpret_cast<float*>(shared);
    float* parts = kernel + WARPS * HALF * SIDE;
    float* v_shared = parts + WARPS * SIDE;
    float* a_shared = v_shared + SIDE;
    float* extremes = a_shared + SIDE;

    const int64_t item = blockIdx.x;
    const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    const float* all = costs + item * SIDE * SIDE;
    const float* mine = all + warp * 2 * HALF * SIDE;
    const float* row_mass = rows + item * SIDE;
    const float* column_mass = columns + item * SIDE;
    float* result = out + item * 2 * SIDE;
    float* stored = kernel + warp * HALF * SIDE;

    float k[HALF][8];
    float low = INFINITY, high = -INFINITY;
#pragma unroll
    for (int r = 0; r < HALF; ++r) load8(k[r], mine + r * SIDE, lane);
#pragma unroll
    for (int r = 0; r < HALF; ++r) {
        float other[8];
        load8(other, mine + (HALF + r) * SIDE, lane);
        store8(stored + r * SIDE, other, lane);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            low = fminf(low, fminf(other[i], k[r][i]));
            high = fmaxf(high, fmaxf(other[i], k[r][i]));
        }
    }
    const float own_row = t < SIDE ? row_mass[t] : -INFINITY;
    const float own_column = t < SIDE ? column_mass[t] : -INFINITY;
    low = -warp_max(-low);
    high = warp_max(high);
    float row_top = warp_max(own_row), column_top = warp_max(own_column);
    if (lane == 0) {
        extremes[warp] = low;
        extremes[WARPS + warp] = high;
        extremes[2 * WARPS + warp] = row_top;
        extremes[3 * WARPS + warp] = column_top;
    }
    if (t == 0) {
        star = SIDE - 1;
        offset_shared = 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < WARPS; ++i) {
        low = fminf(low, extremes[i]);
        high = fmaxf(high, extremes[WARPS + i]);
        row_top = fmaxf(row_top, extremes[2 * WARPS + i]);
        column_top = fmaxf(column_top, extremes[3 * WARPS + i]);
    }
    if (iterations < 1 || !(high - low <= SPREAD) || !(fabsf(row_top) < 1e30f) || !(fabsf(column_top) < 1e30f)) {
        log_domain(all, row_mass, column_mass, result, v_shared, a_shared, SIDE, iterations);
        return;
    }

#pragma unroll
    for (int r = 0; r < HALF; ++r) {
        float other[8];
        load8(other, stored + r * SIDE, lane);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            k[r][i] = expf(low - k[r][i]);
            other[i] = expf(low - other[i]);
        }
        store8(stored + r * SIDE, other, lane);
    }
    float b = 0.0f;
    if (t < SIDE) {
        a_shared[t] = expf(own_row - row_top);
        b = expf(own_column - column_top);
        v_shared[t] = 1.0f;
        if (own_column == column_top) atomicMin(&star, t);
    }
    __syncthreads();
    const int fixed = star;
    const float* a_mine = a_shared + warp * 2 * HALF;

    for (int step = 0; step < iterations; ++step) {
        const bool last = step + 1 == iterations;
        const float offset = offset_shared;
        float v[8], acc[8];
        load8(v, v_shared, lane);
#pragma unroll
        for (int i = 0; i < 8; ++i) acc[i] = 0.0f;

        {
            float s[HALF];
#pragma unroll
            for (int r = 0; r < HALF; ++r) s[r] = dot8(k[r], v);
            const float sum = sum8(s, lane);
            const int row = (lane >> 2) & 7;
            const float u = a_mine[row] / sum;
            if (last && (lane & 3) == 0) {
                const int i = warp * 2 * HALF + row;
                result[i] = row_mass[i] - logf(sum) - offset + low;
            }
#pragma unroll
            for (int r = 0; r < HALF; ++r) {
                const float scale = __shfl_sync(ALL, u, r * 4);
#pragma unroll
                for (int i = 0; i < 8; ++i) acc[i] = fmaf(scale, k[r][i], acc[i]);
            }
        }
#pragma unroll 1
        for (int r = 0; r < HALF; r += 2) {
            float k0[8], k1[8];
            load8(k0, stored + r * SIDE, lane);
            load8(k1, stored + (r + 1) * SIDE, lane);
            const float s0 = dot8(k0, v), s1 = dot8(k1, v);
            const bool upper = lane & 16;
            const float keep = upper ? s1 : s0, send = upper ? s0 : s1;
            float sum = keep + __shfl_xor_sync(ALL, send, 16);
            sum += __shfl_xor_sync(ALL, sum, 8);
            sum += __shfl_xor_sync(ALL, sum, 4);
            sum += __shfl_xor_sync(ALL, sum, 2);
            sum += __shfl_xor_sync(ALL, sum, 1);
            const int row = HALF + r + (lane >> 4);
            const float u = a_mine[row] / sum;
            if (last && (lane & 15) == 0) {
                const int i = warp * 2 * HALF + row;
                result[i] = row_mass[i] - logf(sum) - offset + low;
            }
            const float u0 = __shfl_sync(ALL, u, 0), u1 = __shfl_sync(ALL, u, 16);
#pragma unroll
            for (int i = 0; i < 8; ++i) acc[i] = fmaf(u1, k1[i], fmaf(u0, k0[i], acc[i]));
        }
        store8(parts + warp * SIDE, acc, lane);
        __syncthreads();
        if (t < SIDE) {
            float sum = 0.0f, base = 0.0f;
#pragma unroll
            for (int w = 0; w < WARPS; ++w) {
                sum += parts[w * SIDE + t];
                base += parts[w * SIDE + fixed];
            }
            if (last) result[SIDE + t] = own_column - logf(sum) - row_top + offset;
            v_shared[t] = b * (base / sum);
            if (t == 0) offset_shared = offset + (column_top - row_top) - logf(base);
        }
        __syncthreads();
    }
}

torch::Tensor forward(torch::Tensor costs, torch::Tensor rows, torch::Tensor columns, int64_t iterations) {
    TORCH_CHECK(costs.is_cuda() && costs.scalar_type() == torch::kFloat32 && costs.dim() == 3 &&
                costs.size(1) == costs.size(2), "fp32 [batch, side, side]");
    TORCH_CHECK(rows.scalar_type() == torch::kFloat32 && columns.scalar_type() == torch::kFloat32, "types");
    costs = costs.contiguous();
    rows = rows.contiguous();
    columns = columns.contiguous();
    const int64_t batch = costs.size(0), side = costs.size(1);
    auto out = torch::empty({batch, 2, side}, costs.options());
    if (out.numel() == 0) return out;
    const c10::cuda::CUDAGuard guard(costs.device());
    const auto stream = c10::cuda::getCurrentCUDAStream();
    if (side == SIDE && reinterpret_cast<uintptr_t>(costs.data_ptr()) % 16 == 0) {
        constexpr int bytes = SHARED_FLOATS * sizeof(float);
        C10_CUDA_CHECK(cudaFuncSetAttribute(sinkhorn256, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
        sinkhorn256<<<static_cast<unsigned>(batch), THREADS, bytes, stream>>>(
            costs.data_ptr<float>(), rows.data_ptr<float>(), columns.data_ptr<float>(), out.data_ptr<float>(),
            static_cast<int>(iterations));
    } else {
        const size_t bytes = 2 * static_cast<size_t>(side) * sizeof(float);
        if (bytes > 48 * 1024)
            C10_CUDA_CHECK(cudaFuncSetAttribute(sinkhorn_any, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                static_cast<int>(bytes)));
        sinkhorn_any<<<static_cast<unsigned>(batch), 256, bytes, stream>>>(
            costs.data_ptr<float>(), rows.data_ptr<float>(), columns.data_ptr<float>(), out.data_ptr<float>(),
            static_cast<int>(side), static_cast<int>(iterations));
    }
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""

CPP_SOURCE = """
torch::Tensor forward(torch::Tensor costs, torch::Tensor rows, torch::Tensor columns, int64_t iterations);
"""

extension = load_inline(
    name="sinkhorn",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["forward"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, iterations: int):
        super().__init__()
        self.iterations = iterations

    def forward(self, costs: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        return extension.forward(costs, rows, columns, self.iterations)
