# status: PASSED
# class: T7
# problem: level1/22_gelu
# shapes: small
# backend: cuda
"""Tiles come and go by bulk copies of the tensor memory accelerator, announced to a barrier in shared memory."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
__device__ float gelu(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678f)); }
constexpr int TILE = 4096;
__device__ unsigned address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__global__ void tiles(const float* x, float* out, long count) {
    __shared__ alignas(128) float tile[TILE];
    __shared__ alignas(8) unsigned long long barrier;
    const long first = blockIdx.x * (long)TILE, here = min((long)TILE, count - first);
    if (here < TILE) {
        for (long i = threadIdx.x; i < here; i += blockDim.x) out[first + i] = gelu(x[first + i]);
        return;
    }
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(address(&barrier)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(address(&barrier)), "r"(TILE * 4) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     :: "r"(address(tile)), "l"(x + first), "r"(TILE * 4), "r"(address(&barrier)) : "memory");
    }
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(address(&barrier)) : "memory");
    for (int i = threadIdx.x; i < TILE; i += blockDim.x) tile[i] = gelu(tile[i]);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" :: "l"(out + first), "r"(address(tile)), "r"(TILE * 4) : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}
torch::Tensor run(torch::Tensor x) {
    auto out = torch::empty_like(x);
    tiles<<<(x.numel() + TILE - 1) / TILE, 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.numel());
    return out;
}
"""
module = load_inline(
    name="bulk_copies", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=SOURCE, functions=["run"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.run(x)
