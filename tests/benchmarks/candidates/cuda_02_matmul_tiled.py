"""Shared-memory matmul; extension.h included on both sides, -lcudart repeated."""

import torch
from torch.utils.cpp_extension import load_inline

matmul_source_cuda = """
#include <torch/extension.h>
#include <cuda_runtime.h>

#define TILE_SIZE 32

__global__ void matmul_kernel(const float* __restrict__ A, const float* __restrict__ B, float* C,
                              int M, int N, int K, int lda, int ldb, int ldc) {
    __shared__ float aTile[TILE_SIZE][TILE_SIZE];
    __shared__ float bTile[TILE_SIZE][TILE_SIZE];

    int row = blockIdx.y * TILE_SIZE + threadIdx.y;
    int col = blockIdx.x * TILE_SIZE + threadIdx.x;
    float sum = 0.0f;

    for (int k = 0; k < (K + TILE_SIZE - 1) / TILE_SIZE; k++) {
        int aCol = k * TILE_SIZE + threadIdx.x;
        int bRow = k * TILE_SIZE + threadIdx.y;
        aTile[threadIdx.y][threadIdx.x] = (row < M && aCol < K) ? A[row * lda + aCol] : 0.0f;
        bTile[threadIdx.y][threadIdx.x] = (bRow < K && col < N) ? B[bRow * ldb + col] : 0.0f;
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < TILE_SIZE; i++) sum += aTile[threadIdx.y][i] * bTile[i][threadIdx.x];
        __syncthreads();
    }
    if (row < M && col < N) C[row * ldc + col] = sum;
}

torch::Tensor matmul_cuda(torch::Tensor A, torch::Tensor B) {
    auto A_contig = A.contiguous();
    auto B_contig = B.contiguous();

    const int M = A_contig.size(0);
    const int K = A_contig.size(1);
    const int N = B_contig.size(1);

    auto options = torch::TensorOptions().dtype(A.dtype()).device(A.device());
    auto C = torch::empty({M, N}, options);

    int lda = A_contig.stride(0);
    int ldb = B_contig.stride(0);
    int ldc = C.stride(0);

    dim3 block(TILE_SIZE, TILE_SIZE);
    dim3 grid((N + TILE_SIZE - 1) / TILE_SIZE, (M + TILE_SIZE - 1) / TILE_SIZE);

    matmul_kernel<<<grid, block>>>(
        A_contig.data_ptr<float>(), B_contig.data_ptr<float>(), C.data_ptr<float>(), M, N, K, lda, ldb, ldc);

    cudaDeviceSynchronize();
    return C;
}
"""

matmul_source_cpp = """
#include <torch/extension.h>

torch::Tensor matmul_cuda(torch::Tensor A, torch::Tensor B);
"""

matmul_cuda = load_inline(
    name="matmul_cuda",
    cpp_sources=matmul_source_cpp,
    cuda_sources=matmul_source_cuda,
    functions=["matmul_cuda"],
    verbose=True,
    extra_cflags=["-O3"],
    extra_ldflags=["-lcudart"],
)


def check():
    a, b = torch.randn(70, 50, device="cuda"), torch.randn(50, 90, device="cuda")
    return [(matmul_cuda.matmul_cuda(a, b), a @ b)]
