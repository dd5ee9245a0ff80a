import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

constexpr int THREADS = 128;
constexpr int T = 64;        // places a tile, and the most features
constexpr int PITCH = 68;    // floats; rows of four neighbours lie in different banks
constexpr int TILE = T * PITCH;

__device__ __forceinline__ void copy16(float* to, const float* from) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
__device__ __forceinline__ void await_group() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// A tile of `rows` x `columns`, filled up with zeros; whole ones are copied without waiting.
__device__ __forceinline__ void load(float* to, const float* __restrict__ from, int rows, int columns, bool whole) {
    if (whole) {
#pragma unroll
        for (int i = 0; i < T * T / 4 / THREADS; ++i) {
            const int e = i * THREADS + threadIdx.x, row = e / (T / 4), quad = e % (T / 4);
            copy16(to + row * PITCH + quad * 4, from + row * T + quad * 4);
        }
    } else {
        for (int e = threadIdx.x; e < T * T; e += THREADS) {
            const int row = e / T, column = e % T;
            to[row * PITCH + column] = row < rows && column < columns ? from[row * columns + column] : 0.0f;
        }
    }
}

__device__ __forceinline__ float4 four(const float* address) { return *reinterpret_cast<const float4*>(address); }

__device__ __forceinline__ void add(float (&acc)[4], float a, const float4& b) {
    acc[0] = fmaf(a, b.x, acc[0]);
    acc[1] = fmaf(a, b.y, acc[1]);
    acc[2] = fmaf(a, b.z, acc[2]);
    acc[3] = fmaf(a, b.w, acc[3]);
}

// What each tile but the last adds to the state: late keys, transposed, times values.
__global__ void __launch_bounds__(THREADS, 4)
added(const float* __restrict__ key, const float* __restrict__ value, const float* __restrict__ decay,
      float* __restrict__ states, int heads, int length, int dk, int dv, int tiles, bool aligned) {
    __shared__ __align__(16) float keys[T * T];
    extern __shared__ __align__(16) float values[];
    const int tile = blockIdx.x;
    const int64_t sequence = blockIdx.y;
    const float logs = decay[sequence % heads];
    const float* k_from = key + (sequence * length + static_cast<int64_t>(tile) * T) * dk;
    const float* v_from = value + (sequence * length + static_cast<int64_t>(tile) * T) * dv;
    load(values, v_from, T, dv, aligned && dv == T);
    commit();
    if (aligned && dk == T) {
        float4 x[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) x[i] = __ldg(reinterpret_cast<const float4*>(k_from) + i * THREADS + threadIdx.x);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int e = i * THREADS + threadIdx.x, row = e / (T / 4);
            const float late = expf(logs * static_cast<float>(T - 1 - row));
            x[i].x *= late;
            x[i].y *= late;
            x[i].z *= late;
            x[i].w *= late;
            reinterpret_cast<float4*>(keys)[e] = x[i];
        }
    } else {
        for (int e = threadIdx.x; e < T * T; e += THREADS) {
            const int row = e / T, column = e % T;
            const float late = expf(logs * static_cast<float>(T - 1 - row));
            keys[e] = column < dk ? k_from[row * dk + column] * late : 0.0f;
        }
    }
    await_group<0>();
    __syncthreads();
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int tx = lane % 8 + 8 * (warp % 2), ty = lane / 8 + 4 * (warp / 2);
    float acc[8][4] = {};
#pragma unroll 4
    for (int i = 0; i < T; ++i) {
        const float4 a = four(keys + i * T + ty * 4), b = four(keys + i * T + 32 + ty * 4);
        const float4 v = four(values + i * PITCH + tx * 4);
        add(acc[0], a.x, v);
        add(acc[1], a.y, v);
        add(acc[2], a.z, v);
        add(acc[3], a.w, v);
        add(acc[4], b.x, v);
        add(acc[5], b.y, v);
        add(acc[6], b.z, v);
        add(acc[7], b.w, v);
    }
    float* to = states + (sequence * (tiles - 1) + tile) * (T * T);
#pragma unroll
    for (int r = 0; r < 8; ++r) {
        const int row = ty * 4 + r % 4 + 32 * (r / 4);
        *reinterpret_cast<float4*>(to + row * T + tx * 4) = make_float4(acc[r][0], acc[r][1], acc[r][2], acc[r][3]);
    }
}

// In place: what tiles add becomes the state behind each of them.
__global__ void __launch_bounds__(THREADS)
scan(float* states, const float* __restrict__ decay, int heads, int count) {
    const int64_t sequence = blockIdx.y;
    const float kept = expf(decay[sequence % heads] * static_cast<float>(T));
    float4* at = reinterpret_cast<float4*>(states) + sequence * count * (T * T / 4) + blockIdx.x * THREADS + threadIdx.x;
    float4 state = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    constexpr int N = 16;
    for (int begin = 0; begin < count; begin += N) {
        float4 x[N];
#pragma unroll
        for (int i = 0; i < N; ++i)
            if (begin + i < count) x[i] = at[static_cast<int64_t>(begin + i) * (T * T / 4)];
#pragma unroll
        for (int i = 0; i < N; ++i) {
            if (begin + i < count) {
                state.x = fmaf(kept, state.x, x[i].x);
                state.y = fmaf(kept, state.y, x[i].y);
                state.z = fmaf(kept, state.z, x[i].z);
                state.w = fmaf(kept, state.w, x[i].w);
                at[static_cast<int64_t>(begin + i) * (T * T / 4)] = state;
            }
        }
    }
}

__global__ void __launch_bounds__(THREADS, 3)
retention(const float* __restrict__ query, const float* __restrict__ key, const float* __restrict__ value,
          const float* __restrict__ decay, const float* __restrict__ states, float* __restrict__ out, int heads,
          int length, int dk, int dv, int tiles, bool aligned) {
    extern __shared__ __align__(16) float shared[];
    float* queries = shared;
    float* keys = queries + TILE;
    float* values = keys + TILE;
    float* scores = values + TILE;  // the state before
    float* powers = scores + TILE;  // T + 1
    const int tile = blockIdx.x;
    const int64_t sequence = blockIdx.y;
    const int rows = min(T, length - tile * T);
    const int64_t place = sequence * length + static_cast<int64_t>(tile) * T;
    const bool whole_k = aligned && dk == T && rows == T, whole_v = aligned && dv == T && rows == T;
    load(queries, query + place * dk, rows, dk, whole_k);
    if (tile > 0) load(scores, states + (sequence * (tiles - 1) + tile - 1) * (T * T), T, T, true);
    commit();
    load(keys, key + place * dk, rows, dk, whole_k);
    commit();
    load(values, value + place * dv, rows, dv, whole_v);
    commit();
    const float logs = decay[sequence % heads];
    for (int i = threadIdx.x; i <= T; i += THREADS) powers[i] = expf(logs * static_cast<float>(i));

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int tx = lane % 8 + 8 * (warp % 2), ty = lane / 8 + 4 * (warp / 2);
    float acc[8][4] = {};
    await_group<2>();
    __syncthreads();
    if (tile > 0) {
#pragma unroll 2
        for (int k = 0; k < T; k += 4) {
            float4 b[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) b[i] = four(scores + (k + i) * PITCH + tx * 4);
#pragma unroll
            for (int r = 0; r < 8; ++r) {
                const float4 a = four(queries + (ty + 8 * r) * PITCH + k);
                add(acc[r], a.x, b[0]);
                add(acc[r], a.y, b[1]);
                add(acc[r], a.z, b[2]);
                add(acc[r], a.w, b[3]);
            }
        }
#pragma unroll
        for (int r = 0; r < 8; ++r) {
            const float power = powers[ty + 8 * r + 1];
#pragma unroll
            for (int c = 0; c < 4; ++c) acc[r][c] *= power;
        }
    }
    await_group<1>();
    __syncthreads();  // keys are here, and nobody needs the state any more
    {
        float inner[8][4] = {};
#pragma unroll 2
        for (int k = 0; k < T; k += 4) {
            float4 b[4];
#pragma unroll
            for (int c = 0; c < 4; ++c) b[c] = four(keys + (tx + 16 * c) * PITCH + k);
#pragma unroll
            for (int r = 0; r < 8; ++r) {
                const float4 a = four(queries + (ty + 8 * r) * PITCH + k);
#pragma unroll
                for (int c = 0; c <= r / 2; ++c) {
                    inner[r][c] = fmaf(a.x, b[c].x, inner[r][c]);
                    inner[r][c] = fmaf(a.y, b[c].y, inner[r][c]);
                    inner[r][c] = fmaf(a.z, b[c].z, inner[r][c]);
                    inner[r][c] = fmaf(a.w, b[c].w, inner[r][c]);
                }
            }
        }
#pragma unroll
        for (int r = 0; r < 8; ++r) {
#pragma unroll
            for (int c = 0; c <= r / 2; ++c) {
                const int i = ty + 8 * r, j = tx + 16 * c;
                scores[i * PITCH + j] = j <= i ? inner[r][c] * powers[j <= i ? i - j : 0] : 0.0f;
            }
        }
    }
    await_group<0>();
    __syncthreads();
#pragma unroll
    for (int k = 0; k < T / 4; ++k) {
        float4 b[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) b[i] = four(values + (4 * k + i) * PITCH + tx * 4);
#pragma unroll
        for (int r = k / 2; r < 8; ++r) {
            const float4 a = four(scores + (ty + 8 * r) * PITCH + 4 * k);
            add(acc[r], a.x, b[0]);
            add(acc[r], a.y, b[1]);
            add(acc[r], a.z, b[2]);
            add(acc[r], a.w, b[3]);
        }
    }
    float* to = out + place * dv;
#pragma unroll
    for (int r = 0; r < 8; ++r) {
        const int row = ty + 8 * r;
        if (whole_v) {
            __stcs(reinterpret_cast<float4*>(to + row * T + tx * 4),
                   make_float4(acc[r][0], acc[r][1], acc[r][2], acc[r][3]));
        } else if (row < rows) {
#pragma unroll
            for (int c = 0; c < 4; ++c)
                if (tx * 4 + c < dv) to[row * dv + tx * 4 + c] = acc[r][c];
        }
    }
}

torch::Tensor forward(torch::Tensor query, torch::Tensor key, torch::Tensor value, torch::Tensor decay) {
    for (const auto& each : {query, key, value, decay})
        TORCH_CHECK(each.is_cuda() && each.scalar_type() == torch::kFloat32, "fp32 inputs");
    TORCH_CHECK(query.dim() == 4 && key.sizes() == query.sizes() && value.dim() == 4 &&
                    value.size(2) == query.size(2) && decay.numel() == query.size(1),
                "inputs of [batch, heads, length, features]");
    query = query.contiguous();
    key = key.contiguous();
    value = value.contiguous();
    decay = decay.contiguous();
    const c10::cuda::CUDAGuard guard(query.device());
    const int heads = static_cast<int>(query.size(1)), length = static_cast<int>(query.size(2));
    const int dk = static_cast<int>(query.size(3)), dv = static_cast<int>(value.size(3));
    TORCH_CHECK(dk <= T && dv <= T, "at most 64 features");
    const int64_t sequences = query.size(0) * heads;
    TORCH_CHECK(sequences <= 65535, "at most 65535 sequences");
    auto out = torch::empty({query.size(0), query.size(1), query.size(2), value.size(3)}, query.options());
    if (out.numel() == 0) return out;
    const int tiles = (length + T - 1) / T;
    const auto stream = c10::cuda::getCurrentCUDAStream();
    const auto address =
        reinterpret_cast<uintptr_t>(query.data_ptr()) | reinterpret_cast<uintptr_t>(key.data_ptr()) |
        reinterpret_cast<uintptr_t>(value.data_ptr()) | reinterpret_cast<uintptr_t>(out.data_ptr());
    const bool aligned = address % 16 == 0;
    auto states = torch::empty({sequences * (tiles > 1 ? tiles - 1 : 1) * T * T}, query.options());
    if (tiles > 1) {
        added<<<dim3(tiles - 1, static_cast<unsigned>(sequences)), THREADS, TILE * 4, stream>>>(
            key.data_ptr<float>(), value.data_ptr<float>(), decay.data_ptr<float>(), states.data_ptr<float>(), heads,
            length, dk, dv, tiles, aligned);
        C10_CUDA_KERNEL_LAUNCH_CHECK();
        scan<<<dim3(T * T / 4 / THREADS, static_cast<unsigned>(sequences)), THREADS, 0, stream>>>(
            states.data_ptr<float>(), decay.data_ptr<float>(), heads, tiles - 1);
        C10_CUDA_KERNEL_LAUNCH_CHECK();
    }
    const int bytes = (4 * TILE + T + 4) * 4;
    C10_CUDA_CHECK(cudaFuncSetAttribute(retention, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    retention<<<dim3(tiles, static_cast<unsigned>(sequences)), THREADS, bytes, stream>>>(
        query.data_ptr<float>(), key.data_ptr<float>(), value.data_ptr<float>(), decay.data_ptr<float>(),
        states.data_ptr<float>(), out.data_ptr<float>(), heads, length, dk, dv, tiles, aligned);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""

CPP_SOURCE = (
    "torch::Tensor forward(torch::Tensor query, torch::Tensor key, torch::Tensor value, torch::Tensor decay);"
)

extension = load_inline(
    name="retention_chunk_tiles",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["forward"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, heads: int, chunk: int):
        super().__init__()
        self.decay = nn.Parameter(torch.log(0.9 + 0.09 * torch.rand(heads)))
        self.chunk = chunk

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return extension.forward(query, key, value, self.decay)
