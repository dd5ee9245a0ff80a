import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <cfloat>

constexpr int THREADS = 512, WARPS = THREADS / 32;

// A maximum and the sum of exponentials relative to it.
struct Running {
    float top, sum;
};

__device__ __forceinline__ Running merge(Running a, Running b) {
    const float top = fmaxf(a.top, b.top);
    return {top, a.sum * expf(a.top - top) + b.sum * expf(b.top - top)};
}

__device__ __forceinline__ Running shuffled(Running value, int offset) {
    return {__shfl_xor_sync(0xffffffffu, value.top, offset), __shfl_xor_sync(0xffffffffu, value.sum, offset)};
}

template <bool VECTOR>
__global__ void __launch_bounds__(THREADS)
cross_entropy_rows(const float* __restrict__ logits, const int64_t* __restrict__ targets, float* __restrict__ out,
                   int classes) {
    __shared__ Running shared[WARPS];
    const float* row = logits + static_cast<size_t>(blockIdx.x) * classes;
    Running own = {-FLT_MAX, 0.0f};
    if (VECTOR) {
        const float4* quads = reinterpret_cast<const float4*>(row);
        for (int i = threadIdx.x; i < classes / 4; i += THREADS) {
            const float4 v = quads[i];
            const float top = fmaxf(own.top, fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)));
            own.sum = own.sum * expf(own.top - top) + (expf(v.x - top) + expf(v.y - top)) +
                      (expf(v.z - top) + expf(v.w - top));
            own.top = top;
        }
    } else {
        for (int i = threadIdx.x; i < classes; i += THREADS) own = merge(own, {row[i], 1.0f});
    }
#pragma unroll
    for (int offset = 16; offset; offset /= 2) own = merge(own, shuffled(own, offset));
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = own;
    __syncthreads();
    if (threadIdx.x < 32) {
        own = threadIdx.x < WARPS ? shared[threadIdx.x] : Running{-FLT_MAX, 0.0f};
#pragma unroll
        for (int offset = 16; offset; offset /= 2) own = merge(own, shuffled(own, offset));
        if (threadIdx.x == 0) out[blockIdx.x] = logf(own.sum) + (own.top - row[targets[blockIdx.x]]);
    }
}

torch::Tensor cross_entropy(torch::Tensor logits, torch::Tensor targets) {
    TORCH_CHECK(logits.dim() == 2 && targets.numel() == logits.size(0), "expected one target a row");
    logits = logits.contiguous();
    targets = targets.contiguous();
    const int rows = logits.size(0), classes = logits.size(1);
    auto out = torch::empty({rows}, logits.options());
    if (classes % 4 == 0)
        cross_entropy_rows<true><<<rows, THREADS>>>(logits.data_ptr<float>(), targets.data_ptr<int64_t>(),
                                                    out.data_ptr<float>(), classes);
    else
        cross_entropy_rows<false><<<rows, THREADS>>>(logits.data_ptr<float>(), targets.data_ptr<int64_t>(),
                                                     out.data_ptr<float>(), classes);
    TORCH_CHECK(cudaGetLastError() == cudaSuccess, "launch failed");
    return out;
}
"""

module = load_inline(
    name="cross_entropy_rows",
    cpp_sources="torch::Tensor cross_entropy(torch::Tensor logits, torch::Tensor targets);",
    cuda_sources=cuda_source,
    functions=["cross_entropy"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def forward(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return module.cross_entropy(logits, targets)
