import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cooperative_groups.h>
#include <cmath>
#include <vector>

namespace cg = cooperative_groups;

constexpr int THREADS = 512, WARPS = THREADS / 32, CLUSTER = 8, QUADS = 8;

__device__ __forceinline__ float warp_max(float v) {
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, o));
    return v;
}
__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
    return v;
}

__device__ __forceinline__ bool is_kept(float s, float top, float limit) {
    return s > -INFINITY && !(s - top < limit);
}

__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 2)
choose_cluster(const float* __restrict__ logits, const float* __restrict__ counts, const float* __restrict__ penalties,
               const float* __restrict__ noise, float* __restrict__ best_out, float* __restrict__ log_out,
               int vocabulary, float limit) {
    __shared__ float wmax[WARPS], wsum[WARPS], wbest[WARPS];
    __shared__ float tops[CLUSTER];
    __shared__ float2 results[CLUSTER];
    cg::cluster_group cluster = cg::this_cluster();
    asm volatile("barrier.cluster.arrive.aligned;\n" ::: "memory");
    const int rank = static_cast<int>(cluster.block_rank());
    const int row = blockIdx.x / CLUSTER;
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const int64_t base = static_cast<int64_t>(row) * vocabulary;
    const float4* l4 = reinterpret_cast<const float4*>(logits + base);
    const float4* c4 = reinterpret_cast<const float4*>(counts + base);
    const float penalty = -__ldg(penalties + row);
    const int quads = vocabulary / 4;
    const int first = rank * QUADS * THREADS + threadIdx.x;

    float s[QUADS * 4];
    float top = -INFINITY;
#pragma unroll
    for (int h = 0; h < QUADS; h += 4) {
        float4 l[4], c[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const int q = first + (h + k) * THREADS;
            if (q < quads) {
                l[k] = __ldcs(l4 + q);
                c[k] = __ldcs(c4 + q);
            } else {
                l[k] = make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
                c[k] = make_float4(0.f, 0.f, 0.f, 0.f);
            }
        }
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            float* t = s + (h + k) * 4;
            t[0] = fmaf(penalty, c[k].x, l[k].x);
            t[1] = fmaf(penalty, c[k].y, l[k].y);
            t[2] = fmaf(penalty, c[k].z, l[k].z);
            t[3] = fmaf(penalty, c[k].w, l[k].w);
            top = fmaxf(top, fmaxf(fmaxf(t[0], t[1]), fmaxf(t[2], t[3])));
        }
    }
    top = warp_max(top);
    if (lane == 0) wmax[warp] = top;
    __syncthreads();
    // All blocks of the cluster run from here on, so their shared memory may be written.
    asm volatile("barrier.cluster.wait.aligned;\n" ::: "memory");
    if (threadIdx.x < CLUSTER) {
        float m = wmax[0];
#pragma unroll
        for (int i = 1; i < WARPS; ++i) m = fmaxf(m, wmax[i]);
        cluster.map_shared_rank(tops, threadIdx.x)[rank] = m;
    }
    cluster.sync();
    top = tops[0];
#pragma unroll
    for (int i = 1; i < CLUSTER; ++i) top = fmaxf(top, tops[i]);

    float sum = 0.0f, best = -INFINITY;
    const float* nr = noise + base;
#pragma unroll
    for (int k = 0; k < QUADS; ++k) {
        const int at = (first + k * THREADS) * 4;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float v = s[k * 4 + j];
            if (is_kept(v, top, limit)) {
                sum += expf(v - top);
                best = fmaxf(best, v + __ldg(nr + at + j));
            }
        }
    }
    sum = warp_sum(sum);
    best = warp_max(best);
    if (lane == 0) {
        wsum[warp] = sum;
        wbest[warp] = best;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        sum = wsum[0];
        best = wbest[0];
#pragma unroll
        for (int i = 1; i < WARPS; ++i) {
            sum += wsum[i];
            best = fmaxf(best, wbest[i]);
        }
        cluster.map_shared_rank(results, 0)[rank] = make_float2(sum, best);
    }
    cluster.sync();
    if (rank == 0 && threadIdx.x == 0) {
        sum = results[0].x;
        best = results[0].y;
#pragma unroll
        for (int i = 1; i < CLUSTER; ++i) {
            sum += results[i].x;
            best = fmaxf(best, results[i].y);
        }
        best_out[row] = best;
        log_out[row] = top + logf(sum);
    }
}

__global__ void __launch_bounds__(THREADS)
choose_any(const float* __restrict__ logits, const float* __restrict__ counts, const float* __restrict__ penalties,
           const float* __restrict__ noise, float* __restrict__ best_out, float* __restrict__ log_out,
           int vocabulary, float limit) {
    __shared__ float wmax[WARPS], wsum[WARPS], wbest[WARPS];
    const int row = blockIdx.x;
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const int64_t base = static_cast<int64_t>(row) * vocabulary;
    const float* l = logits + base;
    const float* c = counts + base;
    const float* n = noise + base;
    const float penalty = -__ldg(penalties + row);
    float top = -INFINITY;
    for (int i = threadIdx.x; i < vocabulary; i += THREADS) top = fmaxf(top, fmaf(penalty, c[i], l[i]));
    top = warp_max(top);
    if (lane == 0) wmax[warp] = top;
    __syncthreads();
    top = wmax[0];
    for (int i = 1; i < WARPS; ++i) top = fmaxf(top, wmax[i]);
    float sum = 0.0f, best = -INFINITY;
    for (int i = threadIdx.x; i < vocabulary; i += THREADS) {
        const float v = fmaf(penalty, c[i], l[i]);
        if (is_kept(v, top, limit)) {
            sum += expf(v - top);
            best = fmaxf(best, v + n[i]);
        }
    }
    sum = warp_sum(sum);
    best = warp_max(best);
    if (lane == 0) {
        wsum[warp] = sum;
        wbest[warp] = best;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < WARPS; ++i) {
            sum += wsum[i];
            best = fmaxf(best, wbest[i]);
        }
        best_out[row] = best;
        log_out[row] = top + logf(sum);
    }
}

std::vector<torch::Tensor> forward(torch::Tensor logits, torch::Tensor counts, torch::Tensor penalties,
                                   torch::Tensor noise, double share) {
    TORCH_CHECK(logits.is_cuda() && logits.scalar_type() == torch::kFloat32 && logits.dim() == 2 &&
                counts.scalar_type() == torch::kFloat32 && penalties.scalar_type() == torch::kFloat32 &&
                noise.scalar_type() == torch::kFloat32, "fp32 inputs");
    TORCH_CHECK(logits.sizes() == counts.sizes() && logits.sizes() == noise.sizes(), "equal sizes");
    logits = logits.contiguous();
    counts = counts.contiguous();
    penalties = penalties.contiguous();
    noise = noise.contiguous();
    const int64_t rows = logits.size(0);
    const int vocabulary = static_cast<int>(logits.size(1));
    auto best = torch::empty({rows}, logits.options());
    auto logs = torch::empty({rows}, logits.options());
    if (rows == 0 || vocabulary == 0) return {best, logs};
    const c10::cuda::CUDAGuard guard(logits.device());
    const auto stream = c10::cuda::getCurrentCUDAStream();
    const float limit = static_cast<float>(std::log(share));
    const auto address = reinterpret_cast<uintptr_t>(logits.data_ptr()) | reinterpret_cast<uintptr_t>(counts.data_ptr());
    if (vocabulary % 4 == 0 && vocabulary <= CLUSTER * QUADS * 4 * THREADS && address % 16 == 0) {
        choose_cluster<<<static_cast<unsigned>(rows * CLUSTER), THREADS, 0, stream>>>(
            logits.data_ptr<float>(), counts.data_ptr<float>(), penalties.data_ptr<float>(), noise.data_ptr<float>(),
            best.data_ptr<float>(), logs.data_ptr<float>(), vocabulary, limit);
    } else {
        choose_any<<<static_cast<unsigned>(rows), THREADS, 0, stream>>>(
            logits.data_ptr<float>(), counts.data_ptr<float>(), penalties.data_ptr<float>(), noise.data_ptr<float>(),
            best.data_ptr<float>(), logs.data_ptr<float>(), vocabulary, limit);
    }
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return {best, logs};
}
"""

CPP_SOURCE = """std::vector<torch::Tensor> forward(torch::Tensor logits, torch::Tensor counts, torch::Tensor penalties,
                                   torch::Tensor noise, double share);"""

extension = load_inline(
    name="gumbel_min_p",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["forward"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, least_share: float):
        super().__init__()
        self.least_share = least_share

    def forward(
        self, logits: torch.Tensor, counts: torch.Tensor, penalties: torch.Tensor, noise: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        best, logs = extension.forward(logits, counts, penalties, noise, self.least_share)
        return best, logs
