# status: PASSED
# class: T7
# problem: level1/13_row_mean
# shapes: small
# backend: cuda
"""Four blocks of a cluster share a row; the first reads the others' sums in their shared memory."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void __cluster_dims__(4, 1, 1) means(const float* x, float* out, long columns) {
    cg::cluster_group cluster = cg::this_cluster();
    __shared__ float warps[32], total;
    const long row = blockIdx.x / 4;
    float sum = 0.0f;
    for (long c = cluster.block_rank() * blockDim.x + threadIdx.x; c < columns; c += 4 * blockDim.x) sum += x[row * columns + c];
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        total = 0.0f;
        for (unsigned w = 0; w < blockDim.x / 32; ++w) total += warps[w];
    }
    cluster.sync();
    if (cluster.block_rank() == 0 && threadIdx.x == 0) {
        float all = 0.0f;
        for (unsigned block = 0; block < 4; ++block) all += *cluster.map_shared_rank(&total, block);
        out[row] = all / columns;
    }
    cluster.sync();
}
torch::Tensor run(torch::Tensor x) {
    auto out = torch::empty({x.size(0)}, x.options());
    means<<<x.size(0) * 4, 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.size(1));
    const auto code = cudaGetLastError();
    TORCH_CHECK(code == cudaSuccess, cudaGetErrorString(code));
    return out;
}
"""
module = load_inline(
    name="cluster_with_shared_memory_of_others", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=SOURCE, functions=["run"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.run(x)
