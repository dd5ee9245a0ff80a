"""mma.sync in inline PTX on bfloat16, c10::BFloat16 pointers."""

import torch
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_bf16.h>
#include <stdint.h>

__device__ __forceinline__ void mma_m16n8k16(float* d, const uint32_t* a, const uint32_t* b) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// C[M, N] = A[M, K] * B[N, K]^T, one warp per 16x8 tile
__global__ void gemm_bf16(const __nv_bfloat16* A, const __nv_bfloat16* B, float* C, int M, int N, int K) {
    const int lane = threadIdx.x, group = lane >> 2, pair = (lane & 3) * 2;
    const int row = blockIdx.y * 16, col = blockIdx.x * 8;
    float acc[4] = {0.f, 0.f, 0.f, 0.f};
    for (int k = 0; k < K; k += 16) {
        uint32_t a[4], b[2];
        a[0] = *reinterpret_cast<const uint32_t*>(A + (row + group) * K + k + pair);
        a[1] = *reinterpret_cast<const uint32_t*>(A + (row + group + 8) * K + k + pair);
        a[2] = *reinterpret_cast<const uint32_t*>(A + (row + group) * K + k + pair + 8);
        a[3] = *reinterpret_cast<const uint32_t*>(A + (row + group + 8) * K + k + pair + 8);
        b[0] = *reinterpret_cast<const uint32_t*>(B + (col + group) * K + k + pair);
        b[1] = *reinterpret_cast<const uint32_t*>(B + (col + group) * K + k + pair + 8);
        mma_m16n8k16(acc, a, b);
    }
    C[(row + group) * N + col + pair] = acc[0];
    C[(row + group) * N + col + pair + 1] = acc[1];
    C[(row + group + 8) * N + col + pair] = acc[2];
    C[(row + group + 8) * N + col + pair + 1] = acc[3];
}

torch::Tensor gemm_nt(torch::Tensor a, torch::Tensor b) {
    TORCH_CHECK(a.scalar_type() == at::ScalarType::BFloat16, "bfloat16 expected, got ", a.scalar_type());
    const int M = a.size(0), K = a.size(1), N = b.size(0);
    auto c = torch::zeros({M, N}, torch::TensorOptions().dtype(torch::kFloat).device(a.device()));
    gemm_bf16<<<dim3(N / 8, M / 16), 32>>>(reinterpret_cast<const __nv_bfloat16*>(a.data_ptr<c10::BFloat16>()),
                                           reinterpret_cast<const __nv_bfloat16*>(b.data_ptr<c10::BFloat16>()),
                                           c.data_ptr<float>(), M, N, K);
    return c;
}
"""

ext = load_inline(
    "mma_bf16",
    "torch::Tensor gemm_nt(torch::Tensor a, torch::Tensor b);",
    cuda_source,
    functions=["gemm_nt"],
    extra_cuda_cflags=["-O3", "-std=c++17"],
)


def check():
    a, b = torch.randn(32, 64, device="cuda").bfloat16(), torch.randn(24, 64, device="cuda").bfloat16()
    return [(ext.gemm_nt(a, b), a.float() @ b.float().t())]
