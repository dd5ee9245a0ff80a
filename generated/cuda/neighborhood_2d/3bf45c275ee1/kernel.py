import math

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <math_constants.h>

constexpr int THREADS = 128;
constexpr int F = 32;           // features
constexpr int W = 7;            // window
constexpr int B = 8;            // side of a tile
constexpr int ROWS = B + W - 1; // 14 rows of 16 places, the first at x0 - 4
constexpr int PLANE = ROWS * 16 + 4;
constexpr int Q_FLOATS = F * B * B;
constexpr int KV_FLOATS = F * PLANE;
constexpr int SHARED_BYTES = (Q_FLOATS + 2 * KV_FLOATS + B * B) * 4;

__device__ __forceinline__ void copy16(float* to, const float* from, bool inside) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const int bytes = inside ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes) : "memory");
}

// Where four neighbours of a row lie in a plane: rows of like parity in other banks.
__device__ __forceinline__ int spot(int row, int group) { return row * 16 + ((group ^ (((row >> 1) & 1) << 1)) << 2); }

__device__ __forceinline__ void load_border(float* to, const float* __restrict__ image, int x0, int y0, int side,
                                            bool vectors) {
    const int64_t area = static_cast<int64_t>(side) * side;
    for (int e = threadIdx.x; e < F * ROWS * 4; e += THREADS) {
        const int group = e & 3, rest = e >> 2, row = rest % ROWS, feature = rest / ROWS;
        const int x = x0 - 4 + group * 4, y = y0 - W / 2 + row;
        float* at = to + feature * PLANE + spot(row, group);
        const bool row_inside = y >= 0 && y < side;
        if (vectors) {
            const bool inside = row_inside && x >= 0 && x < side;
            copy16(at, inside ? image + feature * area + static_cast<int64_t>(y) * side + x : image, inside);
        } else {
#pragma unroll
            for (int k = 0; k < 4; ++k)
                at[k] = row_inside && x + k >= 0 && x + k < side
                            ? image[feature * area + static_cast<int64_t>(y) * side + x + k] : 0.0f;
        }
    }
}

__device__ __forceinline__ void unpack(float* to, const float4& x) {
    to[0] = x.x;
    to[1] = x.y;
    to[2] = x.z;
    to[3] = x.w;
}

__global__ void __launch_bounds__(THREADS, 3)
neighborhood(const float* __restrict__ query, const float* __restrict__ key, const float* __restrict__ value,
             float* __restrict__ out, int side, int tiles, float root, bool vectors) {
    extern __shared__ __align__(16) float shared[];
    float* queries = shared;
    float* keys = queries + Q_FLOATS;
    float* values = keys + KV_FLOATS;
    float* sums = values + KV_FLOATS;
    float* scores = keys;  // [49][64], when keys are done with
    const int tid = threadIdx.x;
    const int x0 = blockIdx.x % tiles * B, y0 = blockIdx.x / tiles % tiles * B;
    const int64_t area = static_cast<int64_t>(side) * side;
    const int64_t base = static_cast<int64_t>(blockIdx.x / (tiles * tiles)) * F * area;

    for (int e = tid; e < F * B * 2; e += THREADS) {
        const int half = e & 1, row = (e >> 1) & 7, feature = e >> 4;
        const int x = x0 + half * 4, y = y0 + row;
        float* at = queries + feature * (B * B) + row * B + half * 4;
        const float* from = query + base;
        if (vectors) {
            const bool inside = y < side && x < side;
            copy16(at, inside ? from + feature * area + static_cast<int64_t>(y) * side + x : from, inside);
        } else {
#pragma unroll
            for (int k = 0; k < 4; ++k)
                at[k] = y < side && x + k < side ? from[feature * area + static_cast<int64_t>(y) * side + x + k] : 0.0f;
        }
    }
    load_border(keys, key + base, x0, y0, side, vectors);
    asm volatile("cp.async.commit_group;" ::: "memory");
    load_border(values, value + base, x0, y0, side, vectors);
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();

    // Scores: four pixels of a row, with the seven places of one row of the window.
    const int half = tid & 1, row = (tid >> 1) & 7, dy = tid >> 4;
    const bool scoring = dy < W;
    float s[W][4];
#pragma unroll
    for (int dx = 0; dx < W; ++dx)
#pragma unroll
        for (int j = 0; j < 4; ++j) s[dx][j] = 0.0f;
    if (scoring) {
        const int a0 = spot(row + dy, half), a1 = spot(row + dy, half + 1), a2 = spot(row + dy, half + 2);
#pragma unroll 4
        for (int f = 0; f < F; ++f) {
            float q[4], k[12];
            unpack(q, *reinterpret_cast<const float4*>(queries + f * (B * B) + row * B + half * 4));
            unpack(k, *reinterpret_cast<const float4*>(keys + f * PLANE + a0));
            unpack(k + 4, *reinterpret_cast<const float4*>(keys + f * PLANE + a1));
            unpack(k + 8, *reinterpret_cast<const float4*>(keys + f * PLANE + a2));
#pragma unroll
            for (int dx = 0; dx < W; ++dx)
#pragma unroll
                for (int j = 0; j < 4; ++j) s[dx][j] = fmaf(q[j], k[j + dx + 1], s[dx][j]);
        }
    }
    __syncthreads();
    if (scoring) {
        const int y = y0 + row + dy - W / 2;
        const bool row_inside = y >= 0 && y < side;
#pragma unroll
        for (int dx = 0; dx < W; ++dx) {
            float t[4];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const int x = x0 + half * 4 + j + dx - W / 2;
                t[j] = row_inside && x >= 0 && x < side ? s[dx][j] / root : -CUDART_INF_F;
            }
            *reinterpret_cast<float4*>(scores + (dy * W + dx) * (B * B) + row * B + half * 4) =
                make_float4(t[0], t[1], t[2], t[3]);
        }
    }
    __syncthreads();

    // Softmax: two threads a pixel; weights stay unnormalised, their sum is kept.
    {
        const int pixel = tid >> 1, odd = tid & 1;
        constexpr int N = (W * W + 1) / 2;
        float t[N], largest = -CUDART_INF_F, sum = 0.0f;
#pragma unroll
        for (int i = 0; i < N; ++i) {
            const int place = 2 * i + odd;
            t[i] = place < W * W ? scores[place * (B * B) + pixel] : -CUDART_INF_F;
            largest = fmaxf(largest, t[i]);
        }
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
#pragma unroll
        for (int i = 0; i < N; ++i) {
            const int place = 2 * i + odd;
            if (place < W * W) {
                const float e = expf(t[i] - largest);
                sum += e;
                scores[place * (B * B) + pixel] = e;
            }
        }
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        if (odd == 0) sums[pixel] = sum;
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();

    // Values: four pixels of a row, four features.
    {
        const int first = tid & 7, half = (tid >> 3) & 1, row = tid >> 4;
        float acc[4][4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j) acc[i][j] = 0.0f;
#pragma unroll 1
        for (int dy = 0; dy < W; ++dy) {
            float p[W][4];
#pragma unroll
            for (int dx = 0; dx < W; ++dx)
                unpack(p[dx], *reinterpret_cast<const float4*>(scores + (dy * W + dx) * (B * B) + row * B + half * 4));
            const int a0 = spot(row + dy, half), a1 = spot(row + dy, half + 1), a2 = spot(row + dy, half + 2);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float* plane = values + (first + 8 * i) * PLANE;
                float v[12];
                unpack(v, *reinterpret_cast<const float4*>(plane + a0));
                unpack(v + 4, *reinterpret_cast<const float4*>(plane + a1));
                unpack(v + 8, *reinterpret_cast<const float4*>(plane + a2));
#pragma unroll
                for (int dx = 0; dx < W; ++dx)
#pragma unroll
                    for (int j = 0; j < 4; ++j) acc[i][j] = fmaf(p[dx][j], v[j + dx + 1], acc[i][j]);
            }
        }
        float total[4];
        unpack(total, *reinterpret_cast<const float4*>(sums + row * B + half * 4));
        const int x = x0 + half * 4, y = y0 + row;
        if (y < side) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                float* to = out + base + (first + 8 * i) * area + static_cast<int64_t>(y) * side + x;
                if (vectors) {
                    if (x < side)
                        *reinterpret_cast<float4*>(to) = make_float4(acc[i][0] / total[0], acc[i][1] / total[1],
                                                                     acc[i][2] / total[2], acc[i][3] / total[3]);
                } else {
#pragma unroll
                    for (int j = 0; j < 4; ++j)
                        if (x + j < side) to[j] = acc[i][j] / total[j];
                }
            }
        }
    }
}

// Any other window or number of features: a warp a pixel.
__global__ void neighborhood_any(const float* __restrict__ query, const float* __restrict__ key,
                                 const float* __restrict__ value, float* __restrict__ out, int side, int window,
                                 int features, int value_features, float root) {
    extern __shared__ float weights[];
    const int lane = threadIdx.x;
    const int64_t area = static_cast<int64_t>(side) * side;
    const int64_t image = blockIdx.x / area, pixel = blockIdx.x % area;
    const int y0 = static_cast<int>(pixel / side), x0 = static_cast<int>(pixel % side), places = window * window;
    const float* q = query + image * features * area + pixel;
    const float* k = key + image * features * area;
    const float* v = value + image * value_features * area;
    float largest = -CUDART_INF_F, sum = 0.0f;
    for (int place = lane; place < places; place += 32) {
        const int y = y0 + place / window - window / 2, x = x0 + place % window - window / 2;
        float s = -CUDART_INF_F;
        if (y >= 0 && y < side && x >= 0 && x < side) {
            s = 0.0f;
            for (int f = 0; f < features; ++f) s = fmaf(q[f * area], k[f * area + static_cast<int64_t>(y) * side + x], s);
            s /= root;
        }
        weights[place] = s;
        largest = fmaxf(largest, s);
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1)
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
    for (int place = lane; place < places; place += 32) {
        const float e = expf(weights[place] - largest);
        weights[place] = e;
        sum += e;
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    __syncwarp();
    for (int f = lane; f < value_features; f += 32) {
        float total = 0.0f;
        for (int place = 0; place < places; ++place) {
            const int y = y0 + place / window - window / 2, x = x0 + place % window - window / 2;
            if (y >= 0 && y < side && x >= 0 && x < side)
                total = fmaf(weights[place], v[f * area + static_cast<int64_t>(y) * side + x], total);
        }
        out[(image * value_features + f) * area + pixel] = total / sum;
    }
}

torch::Tensor forward(torch::Tensor query, torch::Tensor key, torch::Tensor value, int64_t window, double root) {
    for (const auto& each : {query, key, value})
        TORCH_CHECK(each.is_cuda() && each.scalar_type() == torch::kFloat32 && each.dim() == 5 &&
                        each.size(3) == query.size(3) && each.size(4) == query.size(3),
                    "fp32 images of [batch, heads, features, side, side]");
    TORCH_CHECK(key.sizes() == query.sizes() && window % 2 == 1 && window < 110, "odd windows");
    query = query.contiguous();
    key = key.contiguous();
    value = value.contiguous();
    const c10::cuda::CUDAGuard guard(query.device());
    auto out = torch::empty(value.sizes(), value.options());
    if (out.numel() == 0) return out;
    const int64_t images = query.size(0) * query.size(1);
    const int features = static_cast<int>(query.size(2)), value_features = static_cast<int>(value.size(2));
    const int side = static_cast<int>(query.size(3));
    const auto stream = c10::cuda::getCurrentCUDAStream();
    const auto address =
        reinterpret_cast<uintptr_t>(query.data_ptr()) | reinterpret_cast<uintptr_t>(key.data_ptr()) |
        reinterpret_cast<uintptr_t>(value.data_ptr()) | reinterpret_cast<uintptr_t>(out.data_ptr());
    if (window == W && features == F && value_features == F) {
        const int tiles = (side + B - 1) / B;
        const bool vectors = side % 4 == 0 && address % 16 == 0;
        C10_CUDA_CHECK(cudaFuncSetAttribute(neighborhood, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES));
        neighborhood<<<static_cast<unsigned>(images * tiles * tiles), THREADS, SHARED_BYTES, stream>>>(
            query.data_ptr<float>(), key.data_ptr<float>(), value.data_ptr<float>(), out.data_ptr<float>(), side,
            tiles, static_cast<float>(root), vectors);
    } else {
        const size_t bytes = static_cast<size_t>(window * window) * 4;
        neighborhood_any<<<static_cast<unsigned>(images * side * side), 32, bytes, stream>>>(
            query.data_ptr<float>(), key.data_ptr<float>(), value.data_ptr<float>(), out.data_ptr<float>(), side,
            static_cast<int>(window), features, value_features, static_cast<float>(root));
    }
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""

CPP_SOURCE = """
torch::Tensor forward(torch::Tensor query, torch::Tensor key, torch::Tensor value, int64_t window, double root);
"""

extension = load_inline(
    name="neighborhood_2d_tiles",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["forward"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, window: int):
        super().__init__()
        self.window = window

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return extension.forward(query, key, value, self.window, math.sqrt(query.shape[2]))
