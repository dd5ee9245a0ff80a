import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <algorithm>
#include <vector>

__global__ void rotate_both(const float* __restrict__ query, const float* __restrict__ key,
                            const float* __restrict__ angles, float* __restrict__ query_out, float* __restrict__ key_out,
                            int planes, int length, int half) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= length * half) return;
    const int position = at / half, pair = at % half;
    float sine, cosine;
    sincosf(angles[at], &sine, &cosine);
    const size_t plane_size = static_cast<size_t>(length) * 2 * half;
    size_t first = static_cast<size_t>(position) * 2 * half + pair + blockIdx.y * plane_size;
#pragma unroll 2
    for (int plane = blockIdx.y; plane < planes; plane += gridDim.y, first += gridDim.y * plane_size) {
        const float q0 = query[first], q1 = query[first + half], k0 = key[first], k1 = key[first + half];
        query_out[first] = q0 * cosine - q1 * sine;
        query_out[first + half] = q1 * cosine + q0 * sine;
        key_out[first] = k0 * cosine - k1 * sine;
        key_out[first + half] = k1 * cosine + k0 * sine;
    }
}

std::vector<torch::Tensor> rotary(torch::Tensor query, torch::Tensor key, torch::Tensor angles) {
    TORCH_CHECK(query.dim() == 4 && query.sizes() == key.sizes(), "expected batch, heads, length, features");
    query = query.contiguous();
    key = key.contiguous();
    angles = angles.contiguous();
    auto query_out = torch::empty_like(query), key_out = torch::empty_like(key);
    const int planes = query.size(0) * query.size(1), length = query.size(2), half = query.size(3) / 2;
    const dim3 grid((length * half + 255) / 256, std::min(planes, 16));
    rotate_both<<<grid, 256>>>(query.data_ptr<float>(), key.data_ptr<float>(), angles.data_ptr<float>(),
                               query_out.data_ptr<float>(), key_out.data_ptr<float>(), planes, length, half);
    TORCH_CHECK(cudaGetLastError() == cudaSuccess, "launch failed");
    return {query_out, key_out};
}
"""

module = load_inline(
    name="rotary",
    cpp_sources="std::vector<torch::Tensor> rotary(torch::Tensor query, torch::Tensor key, torch::Tensor angles);",
    cuda_sources=cuda_source,
    functions=["rotary"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def forward(
        self, query: torch.Tensor, key: torch.Tensor, angles: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        query, key = module.rotary(query, key, angles)
        return query, key
