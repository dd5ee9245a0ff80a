"""Blocked matrix product with AVX2 and FMA intrinsics."""

import torch
from torch.utils.cpp_extension import load_inline

cpp_source = r"""
#include <immintrin.h>
#include <torch/extension.h>
#include <vector>

static void kernel_4x8(const float* a, const float* b, float* c, int64_t k, int64_t lda, int64_t ldb, int64_t ldc) {
    __m256 acc[4];
    for (int i = 0; i < 4; ++i) acc[i] = _mm256_setzero_ps();
    for (int64_t p = 0; p < k; ++p) {
        const __m256 row = _mm256_loadu_ps(b + p * ldb);
        for (int i = 0; i < 4; ++i) acc[i] = _mm256_fmadd_ps(_mm256_set1_ps(a[i * lda + p]), row, acc[i]);
    }
    for (int i = 0; i < 4; ++i) _mm256_storeu_ps(c + i * ldc, acc[i]);
}

torch::Tensor matmul_avx2(torch::Tensor A, torch::Tensor B) {
    TORCH_CHECK(A.dim() == 2 && B.dim() == 2, "expected matrices");
    TORCH_CHECK(A.size(1) == B.size(0), "inner dimensions differ: ", A.size(1), " and ", B.size(0));
    TORCH_CHECK(A.dtype() == torch::kFloat32, "A must be float32");
    auto a = A.contiguous();
    auto b = B.contiguous();
    const int64_t M = a.size(0), K = a.size(1), N = b.size(1);
    auto C = torch::zeros({M, N}, a.options());
    const float* ap = a.data_ptr<float>();
    const float* bp = b.data_ptr<float>();
    float* cp = C.data_ptr<float>();
    const int64_t Mb = M / 4 * 4, Nb = N / 8 * 8;
    for (int64_t i = 0; i < Mb; i += 4)
        for (int64_t j = 0; j < Nb; j += 8) kernel_4x8(ap + i * K, bp + j, cp + i * N + j, K, K, N, N);
    for (int64_t i = 0; i < M; ++i)
        for (int64_t j = (i < Mb ? Nb : 0); j < N; ++j) {
            float sum = 0.0f;
            for (int64_t p = 0; p < K; ++p) sum += ap[i * K + p] * bp[p * N + j];
            cp[i * N + j] = sum;
        }
    return C;
}
"""

matmul_module = load_inline(
    name="matmul_avx2",
    cpp_sources=[cpp_source],
    functions=["matmul_avx2"],
    extra_cflags=["-O3", "-mavx2", "-mfma", "-ffast-math"],
    verbose=True,
)


def check():
    a, b = torch.randn(33, 70), torch.randn(70, 45)
    return [(matmul_module.matmul_avx2(a, b), a @ b)]
