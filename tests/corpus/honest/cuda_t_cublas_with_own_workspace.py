# status: PASSED
# class: T2
# problem: level1/01_square_matmul
# shapes: small
# backend: cuda
"""An own cuBLAS handle with a workspace and a stream of its own, joined by events."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <cublas_v2.h>
torch::Tensor run(torch::Tensor a, torch::Tensor b) {
    static cudaStream_t own = [] { cudaStream_t s; cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking); return s; }();
    static cudaEvent_t before = [] { cudaEvent_t e; cudaEventCreateWithFlags(&e, cudaEventDisableTiming); return e; }();
    static cudaEvent_t after = [] { cudaEvent_t e; cudaEventCreateWithFlags(&e, cudaEventDisableTiming); return e; }();
    static cublasHandle_t handle = [] {
        cublasHandle_t h;
        void* workspace;
        cublasCreate(&h);
        cublasSetStream(h, own);
        cudaMalloc(&workspace, 32 << 20);
        cublasSetWorkspace(h, workspace, 32 << 20);
        return h;
    }();
    const int m = a.size(0), k = a.size(1), n = b.size(1);
    auto out = torch::empty({m, n}, a.options());
    const float one = 1.0f, zero = 0.0f;
    cudaEventRecord(before, 0);
    cudaStreamWaitEvent(own, before, 0);
    cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &one, b.data_ptr<float>(), n, a.data_ptr<float>(), k, &zero, out.data_ptr<float>(), n);
    cudaEventRecord(after, own);
    cudaStreamWaitEvent(0, after, 0);
    return out;
}
"""
module = load_inline(
    name="cublas_with_own_workspace", cpp_sources="torch::Tensor run(torch::Tensor a, torch::Tensor b);", cuda_sources=SOURCE, functions=["run"], extra_ldflags=["-lcublas"]
)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return module.run(a, b)
