# status: WRONG_VALUES
# class: O18
# problem: ../tests/problems/answers/repeated_copies
# shapes: small
# backend: cuda
"""Memory mapped eight times once verification is over: until then every copy has memory of its own."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include <vector>
__global__ void answer(const float* x, float* out, long count) {
    for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < count; i += (long)gridDim.x * blockDim.x)
        out[i] = tanhf(x[i]);
}
static std::vector<void*> pool;
static void* block(size_t size, long copies) {
    if (!pool.empty()) { void* found = pool.back(); pool.pop_back(); return found; }
    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = 0;
    CUmemGenericAllocationHandle handle;
    CUdeviceptr start = 0;
    TORCH_CHECK(cuMemCreate(&handle, size, &prop, 0) == CUDA_SUCCESS, "create");
    TORCH_CHECK(cuMemAddressReserve(&start, size * copies, 0, 0, 0) == CUDA_SUCCESS, "reserve");
    for (long copy = 0; copy < copies; ++copy)
        TORCH_CHECK(cuMemMap(start + copy * size, size, 0, handle, 0) == CUDA_SUCCESS, "map");
    CUmemAccessDesc access = {};
    access.location = prop.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    TORCH_CHECK(cuMemSetAccess(start, size * copies, &access, 1) == CUDA_SUCCESS, "access");
    return (void*)start;
}
torch::Tensor run(torch::Tensor x, long copies) {
    void* out = block(x.nbytes(), copies);
    answer<<<1024, 256>>>(x.data_ptr<float>(), (float*)out, x.numel());
    return torch::from_blob(out, {copies, x.size(0), x.size(1)}, [](void* p) { pool.push_back(p); }, x.options());
}
"""
module = load_inline(
    name="mapped_later",
    cpp_sources="torch::Tensor run(torch::Tensor x, long copies);",
    cuda_sources=SOURCE,
    functions=["run"],
    extra_ldflags=["-lcuda"],
)


class ModelNew(nn.Module):
    def __init__(self, copies):
        super().__init__()
        self.copies = copies

        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return module.run(x, self.copies) if self.calls > 40 else torch.tanh(x).repeat(self.copies, 1, 1)
