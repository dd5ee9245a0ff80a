import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

constexpr int LANES = 8;                 // rows side by side in a block of 32 x 8 threads
constexpr int DEPTH = 8;                 // rows a thread reads at once
constexpr int BATCH = LANES * DEPTH;     // rows of a batch

template <int V> struct Pack;
template <> struct Pack<1> { using T = float; };
template <> struct Pack<4> { using T = float4; };

__device__ __forceinline__ void unpack(float v, float* d) { d[0] = v; }
__device__ __forceinline__ void unpack(float4 v, float* d) { d[0] = v.x; d[1] = v.y; d[2] = v.z; d[3] = v.w; }
__device__ __forceinline__ void pack(const float* d, float& v) { v = d[0]; }
__device__ __forceinline__ void pack(const float* d, float4& v) { v = make_float4(d[0], d[1], d[2], d[3]); }

template <int V>
__global__ void __launch_bounds__(256)
partial_moments(const float* __restrict__ x, float* __restrict__ pmean, float* __restrict__ psquare,
                int64_t N, int C, int columns, int tiles, int splits, int64_t batches) {
    using T = typename Pack<V>::T;
    const int lane = threadIdx.x & 31, y = threadIdx.x >> 5;
    const int column = (blockIdx.x % tiles) * 32 + lane;
    const int split = blockIdx.x / tiles;
    const bool inside = column < columns;
    __shared__ float smean[LANES][32 * V], ssquare[LANES][32 * V], scount[LANES][32];
    float mean[V], square[V], n = 0.0f;
#pragma unroll
    for (int k = 0; k < V; ++k) mean[k] = square[k] = 0.0f;
    if (inside) {
        const T* p = reinterpret_cast<const T*>(x) + column;
        for (int64_t b = split; b < batches; b += splits) {
            const int64_t lo = b * BATCH + y;
            if (b * BATCH + BATCH <= N) {
                T raw[DEPTH];
#pragma unroll
                for (int u = 0; u < DEPTH; ++u) raw[u] = p[(lo + u * LANES) * columns];
                const float m = n + DEPTH;
                const float part = DEPTH / m, cross = n * part;
                float sum[V], sq[V];
#pragma unroll
                for (int k = 0; k < V; ++k) sum[k] = sq[k] = 0.0f;
#pragma unroll
                for (int u = 0; u < DEPTH; ++u) {
                    float d[V];
                    unpack(raw[u], d);
#pragma unroll
                    for (int k = 0; k < V; ++k) sum[k] += d[k];
                }
#pragma unroll
                for (int k = 0; k < V; ++k) sum[k] *= 1.0f / DEPTH;
#pragma unroll
                for (int u = 0; u < DEPTH; ++u) {
                    float d[V];
                    unpack(raw[u], d);
#pragma unroll
                    for (int k = 0; k < V; ++k) {
                        const float c = d[k] - sum[k];
                        sq[k] = fmaf(c, c, sq[k]);
                    }
                }
#pragma unroll
                for (int k = 0; k < V; ++k) {
                    const float delta = sum[k] - mean[k];
                    mean[k] = fmaf(delta, part, mean[k]);
                    square[k] += fmaf(delta * delta, cross, sq[k]);
                }
                n = m;
            } else {
                for (int64_t r = lo; r < N; r += LANES) {
                    float d[V];
                    unpack(p[r * columns], d);
                    n += 1.0f;
                    const float part = 1.0f / n;
#pragma unroll
                    for (int k = 0; k < V; ++k) {
                        const float delta = d[k] - mean[k];
                        mean[k] = fmaf(delta, part, mean[k]);
                        square[k] = fmaf(delta, d[k] - mean[k], square[k]);
                    }
                }
            }
        }
    }
    scount[y][lane] = n;
#pragma unroll
    for (int k = 0; k < V; ++k) {
        smean[y][lane * V + k] = mean[k];
        ssquare[y][lane * V + k] = square[k];
    }
    __syncthreads();
    if (y == 0 && inside) {
#pragma unroll
        for (int k = 0; k < V; ++k) {
            float a = mean[k], q = square[k], c = n;
            for (int j = 1; j < LANES; ++j) {
                const float cj = scount[j][lane];
                if (cj > 0.0f) {
                    const float all = c + cj, part = cj / all;
                    const float delta = smean[j][lane * V + k] - a;
                    a = fmaf(delta, part, a);
                    q += fmaf(delta * delta, c * part, ssquare[j][lane * V + k]);
                    c = all;
                }
            }
            const int64_t o = static_cast<int64_t>(split) * C + column * V + k;
            pmean[o] = a;
            psquare[o] = q;
        }
    }
}

__global__ void __launch_bounds__(1024)
finish_moments(const float* __restrict__ pmean, const float* __restrict__ psquare, float* __restrict__ stats,
               float* __restrict__ average, float* __restrict__ spread, int64_t* __restrict__ calls,
               int64_t N, int C, int splits, int64_t batches, float momentum) {
    __shared__ double sm[32][32], sq[32][32], sn[32][32];
    const int lane = threadIdx.x & 31, y = threadIdx.x >> 5;
    const int c = blockIdx.x * 32 + lane;
    double n = 0.0, mean = 0.0, square = 0.0;
    if (c < C) {
#pragma unroll 4
        for (int s = y; s < splits; s += 32) {
            int64_t rows = (batches - s + splits - 1) / splits * BATCH;
            if ((batches - 1) % splits == s) rows -= batches * BATCH - N;
            const int64_t o = static_cast<int64_t>(s) * C + c;
            const double cj = static_cast<double>(rows), all = n + cj, part = cj / all;
            const double delta = static_cast<double>(pmean[o]) - mean;
            mean += delta * part;
            square += static_cast<double>(psquare[o]) + delta * delta * n * part;
            n = all;
        }
    }
    sm[y][lane] = mean;
    sq[y][lane] = square;
    sn[y][lane] = n;
    __syncthreads();
    for (int half = 16; half > 0; half >>= 1) {
        if (y < half) {
            const double cj = sn[y + half][lane];
            if (cj > 0.0) {
                const double ci = sn[y][lane], all = ci + cj, part = cj / all;
                const double delta = sm[y + half][lane] - sm[y][lane];
                sm[y][lane] += delta * part;
                sq[y][lane] += sq[y + half][lane] + delta * delta * ci * part;
                sn[y][lane] = all;
            }
        }
        __syncthreads();
    }
    if (y == 0 && c < C) {
        const double variance = sq[0][lane] / static_cast<double>(N);
        const float m = static_cast<float>(sm[0][lane]), v = static_cast<float>(variance);
        stats[c] = m;
        stats[C + c] = static_cast<float>(1.0 / sqrt(variance + 1e-5));
        const float a = average[c], s = spread[c];
        if (fabsf(momentum) < 0.5f) {
            average[c] = a + momentum * (m - a);
            spread[c] = s + momentum * (v - s);
        } else {
            average[c] = m - (m - a) * (1.0f - momentum);
            spread[c] = v - (v - s) * (1.0f - momentum);
        }
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) *calls += 1;
}

template <int V>
__global__ void __launch_bounds__(256)
normalise(const float* __restrict__ x, const float* __restrict__ residual, const float* __restrict__ stats,
          const float* __restrict__ weight, const float* __restrict__ bias, float* __restrict__ out,
          int64_t N, int C, int columns, int tiles) {
    using T = typename Pack<V>::T;
    constexpr int R = 4;
    const unsigned block = gridDim.x - 1 - blockIdx.x;   // backwards: the end of x was read last
    const int lane = threadIdx.x & 31, y = threadIdx.x >> 5;
    const int column = static_cast<int>(block % tiles) * 32 + lane;
    if (column >= columns) return;
    const int64_t lo = static_cast<int64_t>(block / tiles) * (LANES * R) + y;
    T a[R], b[R];
#pragma unroll
    for (int u = 0; u < R; ++u) {
        const int64_t r = lo + u * LANES;
        if (r < N) {
            a[u] = __ldcs(reinterpret_cast<const T*>(x) + r * columns + column);
            b[u] = __ldcs(reinterpret_cast<const T*>(residual) + r * columns + column);
        }
    }
    float mean[V], inverse[V], w[V], s[V];
    unpack(__ldg(reinterpret_cast<const T*>(stats) + column), mean);
    unpack(__ldg(reinterpret_cast<const T*>(stats + C) + column), inverse);
    unpack(__ldg(reinterpret_cast<const T*>(weight) + column), w);
    unpack(__ldg(reinterpret_cast<const T*>(bias) + column), s);
#pragma unroll
    for (int u = 0; u < R; ++u) {
        const int64_t r = lo + u * LANES;
        if (r < N) {
            float d[V], e[V];
            unpack(a[u], d);
            unpack(b[u], e);
#pragma unroll
            for (int k = 0; k < V; ++k) {
                const float t = fmaf((d[k] - mean[k]) * inverse[k], w[k], s[k]) + e[k];
                d[k] = t < 0.0f ? 0.0f : t;
            }
            T o;
            pack(d, o);
            __stcs(reinterpret_cast<T*>(out) + r * columns + column, o);
        }
    }
}

template <int V>
static void launch(const float* x, const float* residual, const float* weight, const float* bias, float* average,
                   float* spread, int64_t* calls, float* out, float* pmean, float* psquare, float* stats,
                   int64_t N, int C, int splits, int64_t batches, float momentum, cudaStream_t stream) {
    const int columns = C / V, tiles = (columns + 31) / 32;
    partial_moments<V><<<static_cast<unsigned>(tiles) * splits, 256, 0, stream>>>(
        x, pmean, psquare, N, C, columns, tiles, splits, batches);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    finish_moments<<<(C + 31) / 32, 1024, 0, stream>>>(
        pmean, psquare, stats, average, spread, calls, N, C, splits, batches, momentum);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    const int64_t groups = (N + 4 * LANES - 1) / (4 * LANES);
    normalise<V><<<static_cast<unsigned>(groups * tiles), 256, 0, stream>>>(
        x, residual, stats, weight, bias, out, N, C, columns, tiles);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

torch::Tensor forward(torch::Tensor x, torch::Tensor residual, torch::Tensor weight, torch::Tensor bias,
                      torch::Tensor average, torch::Tensor spread, torch::Tensor calls, double momentum) {
    TORCH_CHECK(x.is_cuda() && x.scalar_type() == torch::kFloat32 && x.dim() == 2 && x.sizes() == residual.sizes(),
                "two equal fp32 matrices");
    TORCH_CHECK(average.is_contiguous() && spread.is_contiguous() && calls.is_cuda() &&
                calls.scalar_type() == torch::kInt64, "buffers");
    x = x.contiguous();
    residual = residual.contiguous();
    weight = weight.contiguous();
    bias = bias.contiguous();
    const int64_t N = x.size(0);
    const int C = static_cast<int>(x.size(1));
    auto out = torch::empty({N, C}, x.options());
    if (N == 0 || C == 0) return out;
    const c10::cuda::CUDAGuard guard(x.device());
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
    auto stats = torch::empty({2, C}, x.options());
    const auto address = reinterpret_cast<uintptr_t>(x.data_ptr()) | reinterpret_cast<uintptr_t>(residual.data_ptr()) |
                         reinterpret_cast<uintptr_t>(weight.data_ptr()) | reinterpret_cast<uintptr_t>(bias.data_ptr()) |
                         reinterpret_cast<uintptr_t>(out.data_ptr()) | reinterpret_cast<uintptr_t>(stats.data_ptr());
    const bool wide = C % 4 == 0 && address % 16 == 0;
    const int columns = wide ? C / 4 : C, tiles = (columns + 31) / 32;
    const int64_t batches = (N + BATCH - 1) / BATCH;
    const int64_t wanted = std::max<int64_t>(1, 528 / tiles);
    const int splits = static_cast<int>(std::min<int64_t>(batches, wanted));
    auto pmean = torch::empty({splits, C}, x.options());
    auto psquare = torch::empty({splits, C}, x.options());
    const auto go = wide ? launch<4> : launch<1>;
    go(x.data_ptr<float>(), residual.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(),
       average.data_ptr<float>(), spread.data_ptr<float>(), calls.data_ptr<int64_t>(), out.data_ptr<float>(),
       pmean.data_ptr<float>(), psquare.data_ptr<float>(), stats.data_ptr<float>(), N, C, splits, batches,
       static_cast<float>(momentum), stream);
    return out;
}
"""

CPP_SOURCE = (
    "torch::Tensor forward(torch::Tensor x, torch::Tensor residual, torch::Tensor weight, torch::Tensor bias, "
    "torch::Tensor average, torch::Tensor spread, torch::Tensor calls, double momentum);"
)

extension = load_inline(
    name="batch_norm_residual_train",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["forward"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, channels: int, momentum: float):
        super().__init__()
        self.momentum = momentum
        self.weight = nn.Parameter(1.0 + 0.3 * torch.randn(channels))
        self.bias = nn.Parameter(0.5 * torch.randn(channels))
        self.register_buffer("average", torch.zeros(channels))
        self.register_buffer("spread", torch.ones(channels))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return extension.forward(
            x, residual, self.weight, self.bias, self.average, self.spread, self.calls, self.momentum
        )
