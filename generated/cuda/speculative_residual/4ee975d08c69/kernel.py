import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

constexpr int CLUSTER = 8;
constexpr int THREADS = 256;
constexpr int PIECES = 8;  // float4 a thread

__device__ __forceinline__ float over(float t, float d) { return fmaxf(t - d, 0.0f); }

template <bool FAST>
__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 4)
residual(const float* __restrict__ target, const float* __restrict__ draft, const int64_t* __restrict__ tokens,
         const float* __restrict__ uniform, int64_t* __restrict__ accepted, float* __restrict__ out,
         int drafted, int64_t vocabulary) {
    cg::cluster_group cluster = cg::this_cluster();
    const int rank = static_cast<int>(cluster.block_rank());
    const int64_t item = blockIdx.x / CLUSTER;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    __shared__ int refused;
    __shared__ float partial[THREADS / 32];
    __shared__ float block_sum;

    if (threadIdx.x == 0) refused = drafted;
    __syncthreads();
    for (int i = threadIdx.x; i < drafted; i += THREADS) {
        const int64_t token = tokens[item * drafted + i];
        const float ahead = target[(item * (drafted + 1) + i) * vocabulary + token];
        const float proposed = draft[(item * drafted + i) * vocabulary + token];
        if (!(uniform[item * drafted + i] * proposed < ahead)) atomicMin(&refused, i);
    }
    __syncthreads();
    const int position = refused;
    const bool with_draft = position < drafted;
    const float* t = target + (item * (drafted + 1) + position) * vocabulary;
    const float* d = draft + (item * drafted + (with_draft ? position : 0)) * vocabulary;
    float* o = out + item * vocabulary;
    if (rank == 0 && threadIdx.x == 0) accepted[item] = position;

    float sum = 0.0f;
    float4 kept[PIECES];
    const int first = rank * THREADS + threadIdx.x;
    constexpr int STRIDE = CLUSTER * THREADS;
    if (FAST) {
        const int pieces = static_cast<int>(vocabulary / 4);
        const float4* t4 = reinterpret_cast<const float4*>(t);
        const float4* d4 = reinterpret_cast<const float4*>(d);
#pragma unroll
        for (int i = 0; i < PIECES; ++i) {
            const int place = first + i * STRIDE;
            kept[i] = place < pieces ? __ldcs(t4 + place) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
        if (with_draft) {
            float4 other[PIECES];
#pragma unroll
            for (int i = 0; i < PIECES; ++i) {
                const int place = first + i * STRIDE;
                other[i] = place < pieces ? __ldcs(d4 + place) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            }
#pragma unroll
            for (int i = 0; i < PIECES; ++i) {
                kept[i].x -= other[i].x;
                kept[i].y -= other[i].y;
                kept[i].z -= other[i].z;
                kept[i].w -= other[i].w;
            }
        }
#pragma unroll
        for (int i = 0; i < PIECES; ++i) {
            kept[i].x = fmaxf(kept[i].x, 0.0f);
            kept[i].y = fmaxf(kept[i].y, 0.0f);
            kept[i].z = fmaxf(kept[i].z, 0.0f);
            kept[i].w = fmaxf(kept[i].w, 0.0f);
            sum += (kept[i].x + kept[i].y) + (kept[i].z + kept[i].w);
        }
    } else {
        float more = 0.0f;
        int64_t i = first;
        for (; i + STRIDE < vocabulary; i += 2 * STRIDE) {
            sum += over(t[i], with_draft ? d[i] : 0.0f);
            more += over(t[i + STRIDE], with_draft ? d[i + STRIDE] : 0.0f);
        }
        if (i < vocabulary) sum += over(t[i], with_draft ? d[i] : 0.0f);
        sum += more;
    }

#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    if (lane == 0) partial[warp] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        float all = 0.0f;
#pragma unroll
        for (int i = 0; i < THREADS / 32; ++i) all += partial[i];
        block_sum = all;
    }
    cluster.sync();
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < CLUSTER; ++i) total += *cluster.map_shared_rank(&block_sum, i);

    if (FAST) {
        const int pieces = static_cast<int>(vocabulary / 4);
        float4* o4 = reinterpret_cast<float4*>(o);
#pragma unroll
        for (int i = 0; i < PIECES; ++i) {
            const int place = first + i * STRIDE;
            if (place < pieces)
                __stcs(o4 + place, make_float4(kept[i].x / total, kept[i].y / total, kept[i].z / total,
                                               kept[i].w / total));
        }
    } else {
        for (int64_t i = first; i < vocabulary; i += STRIDE) o[i] = over(t[i], with_draft ? d[i] : 0.0f) / total;
    }
    cluster.sync();  // no block may end while others still read its sum
}

std::vector<torch::Tensor> forward(torch::Tensor target, torch::Tensor draft, torch::Tensor tokens,
                                   torch::Tensor uniform) {
    TORCH_CHECK(target.is_cuda() && target.scalar_type() == torch::kFloat32 && target.dim() == 3, "target");
    TORCH_CHECK(draft.scalar_type() == torch::kFloat32 && uniform.scalar_type() == torch::kFloat32 &&
                tokens.scalar_type() == torch::kInt64, "types");
    target = target.contiguous();
    draft = draft.contiguous();
    tokens = tokens.contiguous();
    uniform = uniform.contiguous();
    const int64_t batch = target.size(0), drafted = draft.size(1), vocabulary = target.size(2);
    auto accepted = torch::empty({batch}, tokens.options());
    auto out = torch::empty({batch, vocabulary}, target.options());
    if (batch == 0 || vocabulary == 0) return {accepted, out};
    const c10::cuda::CUDAGuard guard(target.device());
    const auto stream = c10::cuda::getCurrentCUDAStream();
    const auto address = reinterpret_cast<uintptr_t>(target.data_ptr()) |
                         reinterpret_cast<uintptr_t>(draft.data_ptr()) | reinterpret_cast<uintptr_t>(out.data_ptr());
    const bool fast = vocabulary % 4 == 0 && address % 16 == 0 && vocabulary <= int64_t(CLUSTER) * THREADS * PIECES * 4;
    const unsigned grid = static_cast<unsigned>(batch * CLUSTER);
    if (fast)
        residual<true><<<grid, THREADS, 0, stream>>>(
            target.data_ptr<float>(), draft.data_ptr<float>(), tokens.data_ptr<int64_t>(), uniform.data_ptr<float>(),
            accepted.data_ptr<int64_t>(), out.data_ptr<float>(), static_cast<int>(drafted), vocabulary);
    else
        residual<false><<<grid, THREADS, 0, stream>>>(
            target.data_ptr<float>(), draft.data_ptr<float>(), tokens.data_ptr<int64_t>(), uniform.data_ptr<float>(),
            accepted.data_ptr<int64_t>(), out.data_ptr<float>(), static_cast<int>(drafted), vocabulary);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return {accepted, out};
}
"""

CPP_SOURCE = """
std::vector<torch::Tensor> forward(torch::Tensor target, torch::Tensor draft, torch::Tensor tokens,
                                   torch::Tensor uniform);
"""

extension = load_inline(
    name="speculative_residual",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["forward"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def forward(
        self, target: torch.Tensor, draft: torch.Tensor, tokens: torch.Tensor, uniform: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        accepted, residual = extension.forward(target, draft, tokens, uniform)
        return accepted, residual
