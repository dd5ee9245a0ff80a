# status: PASSED
# class: T7
# problem: level2/01_gemm_bias_relu
# shapes: small
# backend: cuda
"""A product of cuBLASLt with bias and rectifier in its epilogue, and a workspace from torch."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <cublasLt.h>
torch::Tensor run(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    static cublasLtHandle_t handle = [] { cublasLtHandle_t h; cublasLtCreate(&h); return h; }();
    const long m = x.size(0), k = x.size(1), n = weight.size(0);
    size_t bytes = 8 << 20;
    auto out = torch::empty({m, n}, x.options()), workspace = torch::empty({(long)bytes}, x.options().dtype(torch::kByte));
    cublasLtMatmulDesc_t product;
    cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    const cublasOperation_t turned = CUBLAS_OP_T;
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_RELU_BIAS;
    const void* added = bias.data_ptr<float>();
    cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSA, &turned, sizeof(turned));
    cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof(epilogue));
    cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &added, sizeof(added));
    cublasLtMatrixLayout_t left, right, result;
    cublasLtMatrixLayoutCreate(&left, CUDA_R_32F, k, n, k);
    cublasLtMatrixLayoutCreate(&right, CUDA_R_32F, k, m, k);
    cublasLtMatrixLayoutCreate(&result, CUDA_R_32F, n, m, n);
    cublasLtMatmulPreference_t wishes;
    cublasLtMatmulPreferenceCreate(&wishes);
    cublasLtMatmulPreferenceSetAttribute(wishes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof(bytes));
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    cublasLtMatmulAlgoGetHeuristic(handle, product, left, right, result, result, wishes, 1, &found, &count);
    TORCH_CHECK(count == 1, "no algorithm");
    const float one = 1.0f, zero = 0.0f;
    cublasLtMatmul(handle, product, &one, weight.data_ptr<float>(), left, x.data_ptr<float>(), right, &zero, out.data_ptr<float>(),
                   result, out.data_ptr<float>(), result, &found.algo, workspace.data_ptr(), bytes, 0);
    cublasLtMatmulPreferenceDestroy(wishes);
    for (auto layout : {left, right, result}) cublasLtMatrixLayoutDestroy(layout);
    cublasLtMatmulDescDestroy(product);
    return out;
}
"""
module = load_inline(
    name="cublaslt_epilogue", cpp_sources="torch::Tensor run(torch::Tensor x, torch::Tensor weight, torch::Tensor bias);", cuda_sources=SOURCE, functions=["run"], extra_ldflags=["-lcublasLt"]
)


class ModelNew(nn.Module):
    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_features, in_features) / in_features**0.5)
        self.bias = nn.Parameter(torch.randn(out_features))

    def forward(self, x):
        return module.run(x, self.weight, self.bias)
