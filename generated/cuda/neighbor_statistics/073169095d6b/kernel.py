import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <math_constants.h>

constexpr int THREADS = 256;
constexpr int BATCH = 8;

// starts[n] is the first edge whose target is n or more; starts[nodes] is the number of edges.
__global__ void row_starts(const int64_t* __restrict__ targets, int* __restrict__ starts, int edges, int nodes) {
    const int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e > edges) return;
    const int64_t before = e > 0 ? targets[e - 1] : -1;
    const int64_t here = e < edges ? targets[e] : nodes;
    for (int64_t n = before + 1; n <= here; ++n) starts[n] = e;
}

template <int V> struct Wide { float v[V]; };

template <int V>
__device__ __forceinline__ Wide<V> load(const float* p) {
    Wide<V> w;
    if constexpr (V == 4) {
        const float4 a = __ldg(reinterpret_cast<const float4*>(p));
        w.v[0] = a.x; w.v[1] = a.y; w.v[2] = a.z; w.v[3] = a.w;
    } else {
        w.v[0] = __ldg(p);
    }
    return w;
}

template <int V>
__device__ __forceinline__ void store(float* p, const Wide<V>& w) {
    if constexpr (V == 4) __stcs(reinterpret_cast<float4*>(p), make_float4(w.v[0], w.v[1], w.v[2], w.v[3]));
    else *p = w.v[0];
}

template <int V>
__global__ void __launch_bounds__(THREADS)
statistics(const float* __restrict__ x, const int64_t* __restrict__ sources, const int* __restrict__ starts,
           float* __restrict__ out, int nodes, int features, int width) {
    const int64_t id = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x;
    const int64_t node = id / width;
    if (node >= nodes) return;
    const int f = static_cast<int>(id - node * width) * V;
    const int begin = starts[node], end = starts[node + 1];
    const float* table = x + f;

    Wide<V> sum, dev, high, low;
#pragma unroll
    for (int k = 0; k < V; ++k) {
        sum.v[k] = 0.0f;
        dev.v[k] = 0.0f;
        high.v[k] = -CUDART_INF_F;
        low.v[k] = CUDART_INF_F;
    }
    for (int e = begin; e < end; e += BATCH) {
        const int count = min(BATCH, end - e);
        Wide<V> m[BATCH];
        int64_t s[BATCH];
#pragma unroll
        for (int u = 0; u < BATCH; ++u) s[u] = u < count ? __ldg(sources + e + u) : 0;
#pragma unroll
        for (int u = 0; u < BATCH; ++u) {
            if (u < count) {
                const int64_t row = s[u] < 0 ? s[u] + nodes : s[u];
                m[u] = load<V>(table + row * features);
            } else {
#pragma unroll
                for (int k = 0; k < V; ++k) m[u].v[k] = 0.0f;
            }
        }
        const float n = static_cast<float>(count), old = static_cast<float>(e - begin);
        const float inverse = 1.0f / n;
        const float old_inverse = e > begin ? 1.0f / old : 0.0f;
        const float merge = old * n / (old + n);
#pragma unroll
        for (int k = 0; k < V; ++k) {
            float part = 0.0f;
#pragma unroll
            for (int u = 0; u < BATCH; ++u) {
                part += m[u].v[k];
                if (u < count) {
                    high.v[k] = fmaxf(high.v[k], m[u].v[k]);
                    low.v[k] = fminf(low.v[k], m[u].v[k]);
                }
            }
            const float mean = part * inverse;
            float squares = 0.0f;
#pragma unroll
            for (int u = 0; u < BATCH; ++u) {
                const float d = u < count ? m[u].v[k] - mean : 0.0f;
                squares = fmaf(d, d, squares);
            }
            const float apart = mean - sum.v[k] * old_inverse;
            dev.v[k] += fmaf(apart * apart, merge, squares);
            sum.v[k] += part;
        }
    }

    const bool any = end > begin;
    const float share = 1.0f / static_cast<float>(any ? end - begin : 1);
    Wide<V> mean, spread;
#pragma unroll
    for (int k = 0; k < V; ++k) {
        mean.v[k] = sum.v[k] * share;
        spread.v[k] = sqrtf(dev.v[k] * share + 1e-5f);
        if (!any) high.v[k] = low.v[k] = 0.0f;
    }
    float* target = out + node * 4 * features + f;
    store<V>(target, mean);
    store<V>(target + features, high);
    store<V>(target + 2 * static_cast<int64_t>(features), low);
    store<V>(target + 3 * static_cast<int64_t>(features), spread);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor sources, torch::Tensor targets) {
    TORCH_CHECK(x.is_cuda() && x.dim() == 2 && x.scalar_type() == torch::kFloat32
                && sources.scalar_type() == torch::kInt64 && targets.scalar_type() == torch::kInt64
                && sources.numel() == targets.numel(), "fp32 nodes, int64 edges");
    x = x.contiguous();
    sources = sources.contiguous();
    targets = targets.contiguous();
    const int nodes = static_cast<int>(x.size(0)), features = static_cast<int>(x.size(1));
    const int edges = static_cast<int>(sources.numel());
    auto out = torch::empty({x.size(0), 4 * x.size(1)}, x.options());
    if (out.numel() == 0) return out;
    auto starts = torch::empty({x.size(0) + 1}, x.options().dtype(torch::kInt32));
    const c10::cuda::CUDAGuard guard(x.device());
    auto stream = c10::cuda::getCurrentCUDAStream();
    row_starts<<<static_cast<unsigned>(edges / THREADS + 1), THREADS, 0, stream>>>(
        targets.data_ptr<int64_t>(), starts.data_ptr<int>(), edges, nodes);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    const auto address = reinterpret_cast<uintptr_t>(x.data_ptr()) | reinterpret_cast<uintptr_t>(out.data_ptr());
    if (features % 4 == 0 && address % 16 == 0) {
        const int width = features / 4;
        const int64_t threads = static_cast<int64_t>(nodes) * width;
        statistics<4><<<static_cast<unsigned>((threads + THREADS - 1) / THREADS), THREADS, 0, stream>>>(
            x.data_ptr<float>(), sources.data_ptr<int64_t>(), starts.data_ptr<int>(), out.data_ptr<float>(), nodes,
            features, width);
    } else {
        const int64_t threads = static_cast<int64_t>(nodes) * features;
        statistics<1><<<static_cast<unsigned>((threads + THREADS - 1) / THREADS), THREADS, 0, stream>>>(
            x.data_ptr<float>(), sources.data_ptr<int64_t>(), starts.data_ptr<int>(), out.data_ptr<float>(), nodes,
            features, features);
    }
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""

CPP_SOURCE = "torch::Tensor forward(torch::Tensor x, torch::Tensor sources, torch::Tensor targets);"

extension = load_inline(
    name="neighbor_statistics",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["forward"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor, sources: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return extension.forward(x, sources, targets)
