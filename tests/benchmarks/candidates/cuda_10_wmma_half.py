"""Tensor cores through WMMA, at::Half pointers reinterpreted as half."""

import torch
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

__global__ void wmma_kernel(const half* a, const half* b, float* c, int M, int N, int K) {
    const int tile_m = blockIdx.y * 16, tile_n = blockIdx.x * 16;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int k = 0; k < K; k += 16) {
        wmma::load_matrix_sync(fa, a + tile_m * K + k, K);
        wmma::load_matrix_sync(fb, b + k * N + tile_n, N);
        wmma::mma_sync(acc, fa, fb, acc);
    }
    wmma::store_matrix_sync(c + tile_m * N + tile_n, acc, N, wmma::mem_row_major);
}

torch::Tensor wmma_matmul(torch::Tensor a, torch::Tensor b) {
    TORCH_CHECK(a.dtype() == torch::kHalf && b.dtype() == torch::kHalf, "half inputs expected");
    const int M = a.size(0), K = a.size(1), N = b.size(1);
    TORCH_CHECK(M % 16 == 0 && N % 16 == 0 && K % 16 == 0, "sizes must be multiples of 16");
    auto c = torch::empty({M, N}, a.options().dtype(torch::kFloat32));
    dim3 grid(N / 16, M / 16);
    wmma_kernel<<<grid, 32>>>(reinterpret_cast<const half*>(a.data_ptr<at::Half>()),
                              reinterpret_cast<const half*>(b.data_ptr<at::Half>()),
                              c.data_ptr<float>(), M, N, K);
    return c;
}
"""

ext = load_inline(
    name="wmma_ext",
    cpp_sources="torch::Tensor wmma_matmul(torch::Tensor a, torch::Tensor b);",
    cuda_sources=cuda_source,
    functions=["wmma_matmul"],
    extra_cuda_cflags=["-O3", "-arch=sm_80"],
)


def check():
    a, b = torch.randn(32, 64, device="cuda").half(), torch.randn(64, 48, device="cuda").half()
    return [(ext.wmma_matmul(a, b), a.float() @ b.float())]
