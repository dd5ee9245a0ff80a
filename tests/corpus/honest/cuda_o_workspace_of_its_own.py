# status: PASSED
# class: O13 O14 O17
# problem: level1/13_row_mean
# shapes: odd
# backend: cuda
"""Keeps a workspace of its own from cudaMalloc and a counter by which the last block of a row finishes it, with fences."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
constexpr int PARTS = 4;
__global__ void mean_parts(const float* x, float* out, double* partial, int* tickets, int columns) {
    __shared__ double sums[256];
    __shared__ bool last;
    const float* row = x + (long)blockIdx.y * columns;
    double sum = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < columns; i += PARTS * 256) sum += row[i];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half; half >>= 1) {
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        partial[blockIdx.y * PARTS + blockIdx.x] = sums[0];
        __threadfence();
        last = atomicAdd(tickets + blockIdx.y, 1) == PARTS - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        __threadfence();
        volatile double* mine = partial + blockIdx.y * PARTS;
        double total = 0;
        for (int part = 0; part < PARTS; ++part) total += mine[part];
        out[blockIdx.y] = (float)(total / columns);
        tickets[blockIdx.y] = 0;
    }
}
torch::Tensor row_mean(torch::Tensor x) {
    static double* partial = nullptr;
    static int* tickets = nullptr;
    const int rows = x.size(0);
    if (!partial) {
        cudaMalloc(&partial, sizeof(double) * PARTS * rows);
        cudaMalloc(&tickets, sizeof(int) * rows);
        cudaMemset(tickets, 0, sizeof(int) * rows);
    }
    auto out = torch::empty({rows}, x.options());
    mean_parts<<<dim3(PARTS, rows), 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), partial, tickets, x.size(1));
    return out;
}
"""
module = load_inline(name="device_mean_parts", cpp_sources="torch::Tensor row_mean(torch::Tensor x);", cuda_sources=SOURCE, functions=["row_mean"])


class ModelNew(nn.Module):
    def forward(self, x):
        return module.row_mean(x)
