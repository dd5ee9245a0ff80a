import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

constexpr int THREADS = 256, MOST = 4;  // MOST * 32 features in the plain kernel
constexpr unsigned FULL = 0xffffffffu;

__device__ __forceinline__ float minus_infinity() { return __int_as_float(0xff800000); }
__device__ __forceinline__ float leaky(float s) { return s >= 0.0f ? s : 0.2f * s; }

// starts[t] is the first edge whose target is at least t.
__global__ void __launch_bounds__(THREADS)
row_starts(const int64_t* __restrict__ targets, int* __restrict__ starts, int edges, int nodes) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i > edges) return;
    const int from = i == 0 ? 0 : static_cast<int>(targets[i - 1]) + 1;
    const int to = i == edges ? nodes : static_cast<int>(targets[i]);
    for (int t = from; t <= to; ++t) starts[t] = i;
}

__device__ __forceinline__ float dot(float4 a, float4 b) {
    return fmaf(a.x, b.x, a.y * b.y) + fmaf(a.z, b.z, a.w * b.w);
}

// Sum over the four lanes of a head.
__device__ __forceinline__ float head_sum(float v) {
    v += __shfl_xor_sync(FULL, v, 1);
    return v + __shfl_xor_sync(FULL, v, 2);
}

__global__ void __launch_bounds__(THREADS)
attend_4x16(const float* __restrict__ x, const int64_t* __restrict__ sources, const int* __restrict__ starts,
            const float* __restrict__ towards, const float* __restrict__ away, float* __restrict__ out, int nodes) {
    const int lane = threadIdx.x & 31, part = lane & 15;
    const int node = blockIdx.x * (THREADS / 16) + (threadIdx.x >> 4);
    const float4* rows = reinterpret_cast<const float4*>(x);
    const float4 send = reinterpret_cast<const float4*>(away)[part];
    const bool valid = node < nodes;
    int begin = 0, end = 0;
    float received = 0.0f;
    if (valid) {
        begin = starts[node];
        end = starts[node + 1];
        received = dot(rows[static_cast<int64_t>(node) * 16 + part], reinterpret_cast<const float4*>(towards)[part]);
    }
    received = head_sum(received);
    const int degree = end - begin;
    const int longest = max(degree, __shfl_xor_sync(FULL, degree, 16));  // of the warp's two nodes

    float top = minus_infinity(), total = 0.0f;
    float4 acc = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int base = 0; base < longest; base += 16) {
        const int mine = base + part < degree ? static_cast<int>(sources[begin + base + part]) : 0;
#pragma unroll
        for (int batch = 0; batch < 4; ++batch) {
            if (base + batch * 4 >= longest) break;
            float4 v[4];
            float score[4];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const int at = batch * 4 + j;
                const int source = __shfl_sync(FULL, mine, at, 16);
                v[j] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                if (base + at < degree) v[j] = rows[static_cast<int64_t>(source) * 16 + part];
            }
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const float s = leaky(head_sum(dot(v[j], send)) + received);
                score[j] = base + batch * 4 + j < degree ? s : minus_infinity();
            }
            const float larger = fmaxf(fmaxf(fmaxf(score[0], score[1]), fmaxf(score[2], score[3])), top);
            const float shift = larger == minus_infinity() ? 0.0f : larger;
            const float rescale = expf(top - shift);
            top = larger;
            total *= rescale;
            acc.x *= rescale;
            acc.y *= rescale;
            acc.z *= rescale;
            acc.w *= rescale;
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const float w = expf(score[j] - shift);
                total += w;
                acc.x = fmaf(w, v[j].x, acc.x);
                acc.y = fmaf(w, v[j].y, acc.y);
                acc.z = fmaf(w, v[j].z, acc.z);
                acc.w = fmaf(w, v[j].w, acc.w);
            }
        }
    }
    if (valid) {
        const float scale = 1.0f / (total + 1e-6f);
        __stcs(reinterpret_cast<float4*>(out) + static_cast<int64_t>(node) * 16 + part,
               make_float4(acc.x * scale, acc.y * scale, acc.z * scale, acc.w * scale));
    }
}

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(FULL, v, o);
    return v;
}

__global__ void __launch_bounds__(THREADS)
attend_any(const float* __restrict__ x, const int64_t* __restrict__ sources, const int* __restrict__ starts,
           const float* __restrict__ towards, const float* __restrict__ away, float* __restrict__ out, int nodes,
           int heads, int features) {
    const int lane = threadIdx.x & 31;
    const int64_t pair = static_cast<int64_t>(blockIdx.x) * (THREADS / 32) + (threadIdx.x >> 5);
    if (pair >= static_cast<int64_t>(nodes) * heads) return;
    const int node = static_cast<int>(pair / heads), head = static_cast<int>(pair % heads);
    float send[MOST], acc[MOST];
    float received = 0.0f;
#pragma unroll
    for (int j = 0; j < MOST; ++j) {
        const int f = lane + 32 * j;
        send[j] = acc[j] = 0.0f;
        if (f < features) {
            send[j] = away[head * features + f];
            received += x[pair * features + f] * towards[head * features + f];
        }
    }
    received = warp_sum(received);
    float top = minus_infinity(), total = 0.0f;
    const int end = starts[node + 1];
    for (int e = starts[node]; e < end; ++e) {
        const float* row = x + (sources[e] * heads + head) * features;
        float v[MOST];
        float s = 0.0f;
#pragma unroll
        for (int j = 0; j < MOST; ++j) {
            const int f = lane + 32 * j;
            v[j] = f < features ? row[f] : 0.0f;
            s += v[j] * send[j];
        }
        s = leaky(warp_sum(s) + received);
        const float larger = fmaxf(top, s);
        const float rescale = expf(top - larger), w = expf(s - larger);
        top = larger;
        total = total * rescale + w;
#pragma unroll
        for (int j = 0; j < MOST; ++j) acc[j] = acc[j] * rescale + w * v[j];
    }
#pragma unroll
    for (int j = 0; j < MOST; ++j) {
        const int f = lane + 32 * j;
        if (f < features) out[pair * features + f] = acc[j] / (total + 1e-6f);
    }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor sources, torch::Tensor targets, torch::Tensor towards,
                      torch::Tensor away) {
    TORCH_CHECK(x.is_cuda() && x.scalar_type() == torch::kFloat32 && x.dim() == 3, "fp32 nodes");
    TORCH_CHECK(sources.scalar_type() == torch::kInt64 && targets.scalar_type() == torch::kInt64 &&
                sources.numel() == targets.numel(), "int64 edges");
    TORCH_CHECK(towards.scalar_type() == torch::kFloat32 && away.scalar_type() == torch::kFloat32, "fp32 parameters");
    x = x.contiguous();
    sources = sources.contiguous();
    targets = targets.contiguous();
    towards = towards.contiguous();
    away = away.contiguous();
    const int nodes = static_cast<int>(x.size(0)), heads = static_cast<int>(x.size(1));
    const int features = static_cast<int>(x.size(2)), edges = static_cast<int>(sources.numel());
    TORCH_CHECK(features <= 32 * MOST, "at most 128 features");
    auto out = torch::empty(x.sizes(), x.options());
    if (x.numel() == 0) return out;
    const c10::cuda::CUDAGuard guard(x.device());
    const auto stream = c10::cuda::getCurrentCUDAStream();
    auto starts = torch::empty({static_cast<int64_t>(nodes) + 1}, x.options().dtype(torch::kInt32));
    row_starts<<<edges / THREADS + 1, THREADS, 0, stream>>>(targets.data_ptr<int64_t>(), starts.data_ptr<int>(), edges,
                                                            nodes);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    const auto address = reinterpret_cast<uintptr_t>(x.data_ptr()) | reinterpret_cast<uintptr_t>(out.data_ptr()) |
                         reinterpret_cast<uintptr_t>(towards.data_ptr()) | reinterpret_cast<uintptr_t>(away.data_ptr());
    if (heads == 4 && features == 16 && address % 16 == 0) {
        const int blocks = (nodes + THREADS / 16 - 1) / (THREADS / 16);
        attend_4x16<<<blocks, THREADS, 0, stream>>>(x.data_ptr<float>(), sources.data_ptr<int64_t>(),
                                                    starts.data_ptr<int>(), towards.data_ptr<float>(),
                                                    away.data_ptr<float>(), out.data_ptr<float>(), nodes);
    } else {
        const int64_t pairs = static_cast<int64_t>(nodes) * heads;
        const unsigned blocks = static_cast<unsigned>((pairs + THREADS / 32 - 1) / (THREADS / 32));
        attend_any<<<blocks, THREADS, 0, stream>>>(x.data_ptr<float>(), sources.data_ptr<int64_t>(),
                                                   starts.data_ptr<int>(), towards.data_ptr<float>(),
                                                   away.data_ptr<float>(), out.data_ptr<float>(), nodes, heads,
                                                   features);
    }
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""

CPP_SOURCE = """
torch::Tensor forward(torch::Tensor x, torch::Tensor sources, torch::Tensor targets, torch::Tensor towards,
                      torch::Tensor away);
"""

extension = load_inline(
    name="edge_softmax",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["forward"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, heads: int, features: int):
        super().__init__()
        self.towards = nn.Parameter(torch.randn(heads, features) / features**0.5)
        self.away = nn.Parameter(torch.randn(heads, features) / features**0.5)

    def forward(self, x: torch.Tensor, sources: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return extension.forward(x, sources, targets, self.towards, self.away)
