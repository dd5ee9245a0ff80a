"""Streams and events of the candidate's own around two kernels."""

import torch
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>

#define CUDA_CHECK(call)                                                                     \
    do {                                                                                     \
        cudaError_t err = call;                                                              \
        if (err != cudaSuccess) {                                                            \
            printf("CUDA error %s at %s:%d\n", cudaGetErrorString(err), __FILE__, __LINE__); \
            exit(EXIT_FAILURE);                                                              \
        }                                                                                    \
    } while (0)

__global__ void axpy(const float* x, float* y, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}

torch::Tensor two_streams(torch::Tensor x, torch::Tensor y, double a) {
    auto out = y.clone();
    const int n = x.numel() / 2;
    cudaStream_t main_stream = c10::cuda::getCurrentCUDAStream();
    cudaStream_t side;
    cudaEvent_t ready, done;
    CUDA_CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    CUDA_CHECK(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming));
    CUDA_CHECK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
    CUDA_CHECK(cudaEventRecord(ready, main_stream));
    CUDA_CHECK(cudaStreamWaitEvent(side, ready, 0));
    axpy<<<(n + 255) / 256, 256, 0, main_stream>>>(x.data_ptr<float>(), out.data_ptr<float>(), (float)a, n);
    const int rest = x.numel() - n;
    axpy<<<(rest + 255) / 256, 256, 0, side>>>(x.data_ptr<float>() + n, out.data_ptr<float>() + n, (float)a, rest);
    CUDA_CHECK(cudaEventRecord(done, side));
    CUDA_CHECK(cudaStreamWaitEvent(main_stream, done, 0));
    CUDA_CHECK(cudaStreamSynchronize(main_stream));
    cudaEventDestroy(ready);
    cudaEventDestroy(done);
    cudaStreamDestroy(side);
    return out;
}
"""

ext = load_inline(
    "two_streams_ext",
    "torch::Tensor two_streams(torch::Tensor x, torch::Tensor y, double a);",
    cuda_source,
    functions=["two_streams"],
)


def check():
    x, y = torch.randn(1001, device="cuda"), torch.randn(1001, device="cuda")
    return [(ext.two_streams(x, y, 1.5), 1.5 * x + y)]
