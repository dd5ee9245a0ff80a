# status: PASSED
# class: T7
# problem: level1/22_gelu
# shapes: small
# backend: cuda
"""A tensor map describes the input of each call; tiles are fetched by coordinates."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <cuda.h>
__device__ float gelu(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678f)); }
constexpr int ROWS = 16, COLUMNS = 64;
__device__ unsigned address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__global__ void tiles(const __grid_constant__ CUtensorMap map, float* out, long rows, long columns) {
    __shared__ alignas(128) float tile[ROWS * COLUMNS];
    __shared__ alignas(8) unsigned long long barrier;
    const int column = blockIdx.x * COLUMNS, row = blockIdx.y * ROWS;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(address(&barrier)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(address(&barrier)), "r"((int)sizeof(tile)) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     :: "r"(address(tile)), "l"(&map), "r"(column), "r"(row), "r"(address(&barrier)) : "memory");
    }
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(address(&barrier)) : "memory");
    for (int i = threadIdx.x; i < ROWS * COLUMNS; i += blockDim.x) {
        const long r = row + i / COLUMNS, c = column + i % COLUMNS;
        if (r < rows && c < columns) out[r * columns + c] = gelu(tile[i]);
    }
}
__global__ void plain(const float* x, float* out, long count) {
    for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < count; i += (long)gridDim.x * blockDim.x) out[i] = gelu(x[i]);
}
using Encode = decltype(&cuTensorMapEncodeTiled);
torch::Tensor run(torch::Tensor x) {
    static Encode encode = [] {
        void* entry = nullptr;
        cudaDriverEntryPointQueryResult found;
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found);
        return (Encode)entry;
    }();
    auto out = torch::empty_like(x);
    const long rows = x.size(0), columns = x.size(1);
    if (columns % 4) {
        plain<<<1024, 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.numel());
        return out;
    }
    CUtensorMap map;
    cuuint64_t sizes[2] = {(cuuint64_t)columns, (cuuint64_t)rows}, pitch[1] = {(cuuint64_t)columns * 4};
    cuuint32_t box[2] = {COLUMNS, ROWS}, steps[2] = {1, 1};
    const auto code = encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, x.data_ptr<float>(), sizes, pitch, box, steps,
                             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    TORCH_CHECK(code == CUDA_SUCCESS, "the tensor map was refused: ", (int)code);
    tiles<<<dim3((columns + COLUMNS - 1) / COLUMNS, (rows + ROWS - 1) / ROWS), 256>>>(map, out.data_ptr<float>(), rows, columns);
    return out;
}
"""
module = load_inline(
    name="tensor_map", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=SOURCE, functions=["run"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.run(x)
