"""A cuBLAS handle of the candidate's own, kept in a static."""

import torch
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cublas_v2.h>
#include <stdexcept>

static cublasHandle_t handle() {
    static cublasHandle_t h = nullptr;
    if (!h) {
        if (cublasCreate(&h) != CUBLAS_STATUS_SUCCESS) throw std::runtime_error("cublasCreate failed");
        cublasSetMathMode(h, CUBLAS_DEFAULT_MATH);
    }
    return h;
}

torch::Tensor bmm(torch::Tensor a, torch::Tensor b) {
    auto A = a.contiguous();
    auto B = b.contiguous();
    const int64_t batch = A.size(0), m = A.size(1), k = A.size(2), n = B.size(2);
    auto C = torch::zeros({batch, m, n}, A.options());
    const float one = 1.f, zero = 0.f;
    cublasSgemmStridedBatched(handle(), CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &one,
                              B.data_ptr<float>(), n, k * n, A.data_ptr<float>(), k, m * k, &zero,
                              C.data_ptr<float>(), n, m * n, batch);
    return C;
}
"""

ext = load_inline(
    name="bmm_cublas",
    cpp_sources=["torch::Tensor bmm(torch::Tensor a, torch::Tensor b);"],
    cuda_sources=[cuda_source],
    functions=["bmm"],
    extra_ldflags=["-lcublas", "-L/usr/local/cuda/lib64"],
    with_cuda=True,
)


def check():
    a, b = torch.randn(4, 9, 17, device="cuda"), torch.randn(4, 17, 11, device="cuda")
    return [(ext.bmm(a, b), torch.bmm(a, b))]
