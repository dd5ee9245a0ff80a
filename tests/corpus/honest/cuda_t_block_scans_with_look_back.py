# status: PASSED
# class: T7
# problem: level1/16_cumulative_sum
# shapes: small
# backend: cuda
"""Blocks of a row publish their running sums, and each waits for the one before it."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <cub/cub.cuh>
constexpr int THREADS = 256, ITEMS = 8;
__global__ void scan(const float* x, float* out, volatile float* sums, volatile unsigned* ready, unsigned* next, long columns, long tiles) {
    using Scan = cub::BlockScan<float, THREADS>;
    __shared__ typename Scan::TempStorage storage;
    __shared__ float before;
    __shared__ unsigned ticket;
    if (threadIdx.x == 0) ticket = atomicAdd(next, 1u);
    __syncthreads();
    const long row = ticket / tiles, tile = ticket % tiles;
    const long first = tile * THREADS * ITEMS + threadIdx.x * ITEMS;
    float values[ITEMS], total;
    for (int i = 0; i < ITEMS; ++i) values[i] = first + i < columns ? x[row * columns + first + i] : 0.0f;
    Scan(storage).InclusiveSum(values, values, total);
    if (threadIdx.x == 0) {
        before = 0.0f;
        if (tile > 0) {
            while (ready[ticket - 1] == 0) {}
            __threadfence();
            before = sums[ticket - 1];
        }
        sums[ticket] = before + total;
        __threadfence();
        ready[ticket] = 1;
    }
    __syncthreads();
    for (int i = 0; i < ITEMS; ++i)
        if (first + i < columns) out[row * columns + first + i] = before + values[i];
}
torch::Tensor run(torch::Tensor x) {
    const long rows = x.size(0), columns = x.size(1), tiles = (columns + THREADS * ITEMS - 1) / (THREADS * ITEMS);
    auto out = torch::empty_like(x), sums = torch::empty({rows * tiles}, x.options());
    auto marks = torch::empty({rows * tiles + 1}, x.options().dtype(torch::kInt));
    unsigned* ready = (unsigned*)marks.data_ptr<int>();
    cudaMemsetAsync(ready, 0, marks.nbytes(), 0);
    scan<<<rows * tiles, THREADS>>>(x.data_ptr<float>(), out.data_ptr<float>(), sums.data_ptr<float>(), ready, ready + rows * tiles, columns, tiles);
    return out;
}
"""
module = load_inline(
    name="block_scans_with_look_back", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=SOURCE, functions=["run"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.run(x)
