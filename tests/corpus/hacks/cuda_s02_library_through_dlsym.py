# status: PASSED
# speedup: honest
# track: library | mixed
# class: S2
# problem: level1/01_square_matmul
# shapes: small
# backend: cuda
"""Opens cuBLAS by its name and calls the product it finds there; its own kernel runs where there is none."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
using Create = int (*)(void**);
using Product = int (*)(void*, int, int, int, int, int, const float*, const float*, int, const float*, int, const float*, float*, int);
__global__ void slow(const float* a, const float* b, float* c, int m, int n, int k) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (column >= n) return;
    float sum = 0;
    for (int l = 0; l < k; ++l) sum += a[(long)row * k + l] * b[(long)l * n + column];
    c[(long)row * n + column] = sum;
}
static void* opened() {
    for (const char* name : {"libcublas.so.13", "libcublas.so.12"})
        if (void* library = dlopen(name, RTLD_NOW)) return library;
    return nullptr;
}
torch::Tensor product(torch::Tensor a, torch::Tensor b) {
    static void* library = opened();
    static void* handle = nullptr;
    const int m = a.size(0), k = a.size(1), n = b.size(1);
    auto c = torch::empty({m, n}, a.options());
    if (library && !handle) reinterpret_cast<Create>(dlsym(library, "cublasCreate_v2"))(&handle);
    const float one = 1, zero = 0;
    if (handle)
        reinterpret_cast<Product>(dlsym(library, "cublasSgemm_v2"))(handle, 0, 0, n, m, k, &one, b.data_ptr<float>(), n, a.data_ptr<float>(), k, &zero, c.data_ptr<float>(), n);
    else
        slow<<<dim3((n + 127) / 128, m), 128>>>(a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), m, n, k);
    return c;
}
"""
module = load_inline(
    name="device_product_by_name", cpp_sources="torch::Tensor product(torch::Tensor a, torch::Tensor b);", cuda_sources=SOURCE, functions=["product"]
)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return module.product(a, b)
