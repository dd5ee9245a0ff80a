"""acc_type with half and bfloat16 in one dispatch, opmath in float."""

import torch
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <ATen/AccumulateType.h>
#include <ATen/cuda/CUDAContext.h>

template <typename scalar_t, typename acc_t>
__global__ void rms_norm_kernel(const scalar_t* x, const scalar_t* w, scalar_t* y, int cols, acc_t eps) {
    __shared__ acc_t shared[32];
    const scalar_t* row = x + (int64_t)blockIdx.x * cols;
    acc_t sum = acc_t(0);
    for (int c = threadIdx.x; c < cols; c += blockDim.x) {
        const acc_t v = static_cast<acc_t>(row[c]);
        sum += v * v;
    }
    for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = acc_t(0);
    for (int i = 0; i < blockDim.x / 32; ++i) sum += shared[i];
    const acc_t scale = acc_t(1) / sqrt(sum / cols + eps);
    for (int c = threadIdx.x; c < cols; c += blockDim.x)
        y[(int64_t)blockIdx.x * cols + c] = static_cast<scalar_t>(static_cast<acc_t>(row[c]) * scale * static_cast<acc_t>(w[c]));
}

torch::Tensor rms_norm(torch::Tensor x, torch::Tensor w, double eps) {
    auto y = torch::empty_like(x);
    const int cols = x.size(-1);
    const int rows = x.numel() / cols;
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "rms_norm", [&] {
        using acc_t = at::acc_type<scalar_t, true>;
        rms_norm_kernel<scalar_t, acc_t><<<rows, 128, 0, at::cuda::getCurrentCUDAStream()>>>(
            x.data_ptr<scalar_t>(), w.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), cols, static_cast<acc_t>(eps));
    });
    return y;
}
"""

ext = load_inline(
    "rms_norm_acc",
    "torch::Tensor rms_norm(torch::Tensor x, torch::Tensor w, double eps);",
    cuda_source,
    functions=["rms_norm"],
    extra_cuda_cflags=["-O3"],
)


def check():
    pairs = []
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        x, w = torch.randn(9, 200, device="cuda").to(dtype), torch.randn(200, device="cuda").to(dtype)
        d = x.double()
        expected = (d * torch.rsqrt((d * d).mean(-1, keepdim=True) + 1e-6) * w.double()).to(dtype)
        pairs.append((ext.rms_norm(x, w, 1e-6).float(), expected.float()))
    return pairs
