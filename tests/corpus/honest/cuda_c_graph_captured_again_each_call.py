# status: PASSED
# class: C6
# problem: level1/22_gelu
# shapes: small
# backend: cuda
"""Each call is captured with two branches and updates the graph that is launched."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
__device__ float gelu(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678f)); }
__global__ void pass(const float* x, float* out, long count) {
    for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < count; i += (long)gridDim.x * blockDim.x) out[i] = gelu(x[i]);
}
static cudaStream_t stream() { cudaStream_t s; cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking); return s; }
static cudaEvent_t event() { cudaEvent_t e; cudaEventCreateWithFlags(&e, cudaEventDisableTiming); return e; }
torch::Tensor run(torch::Tensor x) {
    static cudaStream_t first = stream(), second = stream();
    static cudaEvent_t fork = event(), join = event();
    static cudaGraphExec_t executable = nullptr;
    auto out = torch::empty_like(x);
    const long half = x.numel() / 2;
    cudaStreamBeginCapture(first, cudaStreamCaptureModeThreadLocal);
    cudaEventRecord(fork, first);
    cudaStreamWaitEvent(second, fork, 0);
    pass<<<512, 256, 0, first>>>(x.data_ptr<float>(), out.data_ptr<float>(), half);
    pass<<<512, 256, 0, second>>>(x.data_ptr<float>() + half, out.data_ptr<float>() + half, x.numel() - half);
    cudaEventRecord(join, second);
    cudaStreamWaitEvent(first, join, 0);
    cudaGraph_t graph;
    cudaStreamEndCapture(first, &graph);
    cudaGraphExecUpdateResultInfo found;
    if (!executable || cudaGraphExecUpdate(executable, graph, &found) != cudaSuccess) {
        cudaGetLastError();
        cudaGraphInstantiate(&executable, graph, 0);
    }
    cudaGraphDestroy(graph);
    cudaGraphLaunch(executable, 0);
    return out;
}
"""
module = load_inline(
    name="graph_captured_again_each_call", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=SOURCE, functions=["run"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.run(x)
