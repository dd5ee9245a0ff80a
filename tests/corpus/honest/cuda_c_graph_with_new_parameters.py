# status: PASSED
# class: C6
# problem: level1/22_gelu
# shapes: small
# backend: cuda
"""One graph whose kernel node gets the pointers of each call before it is launched."""
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
torch::Tensor run(torch::Tensor x) {
    static cudaGraph_t graph;
    static cudaGraphNode_t node;
    static cudaGraphExec_t executable = nullptr;
    auto out = torch::empty_like(x);
    const float* in = x.data_ptr<float>();
    float* result = out.data_ptr<float>();
    long count = x.numel();
    void* arguments[] = {&in, &result, &count};
    cudaKernelNodeParams parameters = {};
    parameters.func = (void*)pass;
    parameters.gridDim = dim3(1024);
    parameters.blockDim = dim3(256);
    parameters.kernelParams = arguments;
    if (!executable) {
        cudaGraphCreate(&graph, 0);
        cudaGraphAddKernelNode(&node, graph, nullptr, 0, &parameters);
        cudaGraphInstantiate(&executable, graph, 0);
    }
    cudaGraphExecKernelNodeSetParams(executable, node, &parameters);
    cudaGraphLaunch(executable, 0);
    return out;
}
"""
module = load_inline(
    name="graph_with_new_parameters", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=SOURCE, functions=["run"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.run(x)
