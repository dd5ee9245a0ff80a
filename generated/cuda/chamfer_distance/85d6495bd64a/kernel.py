import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <algorithm>
#include <vector>

constexpr int THREADS = 256, WARPS = THREADS / 32, POINTS = 16, SPAN = WARPS * 32 * POINTS, CHUNK = 512;
constexpr int INFINITE = 0x7f800000;

__global__ void __launch_bounds__(256)
set_infinite(int* __restrict__ a, int64_t na, int* __restrict__ b, int64_t nb) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
    if (i < na) a[i] = INFINITE;
    if (i < nb) b[i] = INFINITE;
}

__device__ __forceinline__ int least(int a, int b, int c) { return min(min(a, b), c); }

__device__ __forceinline__ int apart(float x, float y, float z, const float4& p) {
    const float dx = x - p.x, dy = y - p.y, dz = z - p.z;
    return __float_as_int(fmaf(dz, dz, fmaf(dy, dy, dx * dx)));
}

__global__ void __launch_bounds__(THREADS, 2)
chamfer(const float* __restrict__ left, const float* __restrict__ right, int* __restrict__ out_left,
        int* __restrict__ out_right, int n, int m, int chunk) {
    __shared__ float4 points[CHUNK + 1];
    const int64_t cloud = blockIdx.z;
    const int first = blockIdx.x * chunk;
    const int count = min(chunk, m - first);
    const float* r = right + (cloud * m + first) * 3;
    // One more point than needed, a copy of the last, so that points can be taken in pairs.
    for (int i = threadIdx.x; i <= count; i += THREADS) {
        const int k = min(i, count - 1) * 3;
        points[i] = make_float4(r[k], r[k + 1], r[k + 2], 0.0f);
    }
    __syncthreads();
    const int lane = threadIdx.x & 31;
    const int l0 = blockIdx.y * SPAN + (threadIdx.x >> 5) * (32 * POINTS);
    if (l0 >= n) return;
    const float* l = left + cloud * n * 3;
    float x[POINTS], y[POINTS], z[POINTS];
    int best[POINTS];
#pragma unroll
    for (int i = 0; i < POINTS; ++i) {
        const int k = min(l0 + i * 32 + lane, n - 1) * 3;
        x[i] = l[k];
        y[i] = l[k + 1];
        z[i] = l[k + 2];
        best[i] = INFINITE;
    }
    int* to = out_right + cloud * m + first;
    for (int g = 0; g < count; g += 32) {
        const int limit = min(32, count - g);
        int keep = INFINITE;
        for (int j = 0; j < limit; j += 2) {
            const float4 p = points[g + j], q = points[g + j + 1];
            int a = INFINITE, b = INFINITE;
#pragma unroll
            for (int i = 0; i < POINTS; i += 2) {
                const int a0 = apart(x[i], y[i], z[i], p), b0 = apart(x[i], y[i], z[i], q);
                const int a1 = apart(x[i + 1], y[i + 1], z[i + 1], p), b1 = apart(x[i + 1], y[i + 1], z[i + 1], q);
                best[i] = least(a0, b0, best[i]);
                best[i + 1] = least(a1, b1, best[i + 1]);
                a = least(a0, a1, a);
                b = least(b0, b1, b);
            }
            a = __reduce_min_sync(0xffffffffu, a);
            b = __reduce_min_sync(0xffffffffu, b);
            if (lane == j) keep = a;
            if (lane == j + 1) keep = b;
        }
        if (lane < limit) atomicMin(to + g + lane, keep);
    }
#pragma unroll
    for (int i = 0; i < POINTS; ++i) {
        const int k = l0 + i * 32 + lane;
        if (k < n) atomicMin(out_left + cloud * n + k, best[i]);
    }
}

std::vector<torch::Tensor> forward(torch::Tensor left, torch::Tensor right) {
    TORCH_CHECK(left.is_cuda() && left.scalar_type() == torch::kFloat32 && right.scalar_type() == torch::kFloat32 &&
                left.dim() == 3 && right.dim() == 3 && left.size(2) == 3 && right.size(2) == 3 &&
                left.size(0) == right.size(0), "fp32 point clouds");
    left = left.contiguous();
    right = right.contiguous();
    const int clouds = static_cast<int>(left.size(0));
    const int n = static_cast<int>(left.size(1)), m = static_cast<int>(right.size(1));
    auto a = torch::empty({clouds, n}, left.options());
    auto b = torch::empty({clouds, m}, left.options());
    const int64_t most = std::max(a.numel(), b.numel());
    if (most == 0) return {a, b};
    const c10::cuda::CUDAGuard guard(left.device());
    const auto stream = c10::cuda::getCurrentCUDAStream();
    int* pa = reinterpret_cast<int*>(a.data_ptr<float>());
    int* pb = reinterpret_cast<int*>(b.data_ptr<float>());
    set_infinite<<<static_cast<unsigned>((most + 255) / 256), 256, 0, stream>>>(pa, a.numel(), pb, b.numel());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    if (n == 0 || m == 0) return {a, b};
    int processors = 132;
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, left.get_device()));
    const int spans = (n + SPAN - 1) / SPAN;
    const int wanted = std::max(1, 2 * processors / std::max(1, clouds * spans));
    int chunk = (m + wanted - 1) / wanted;
    chunk = std::min(CHUNK, std::max(32, (chunk + 1) / 2 * 2));
    const int chunks = (m + chunk - 1) / chunk;
    chamfer<<<dim3(chunks, spans, clouds), THREADS, 0, stream>>>(
        left.data_ptr<float>(), right.data_ptr<float>(), pa, pb, n, m, chunk);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return {a, b};
}
"""

CPP_SOURCE = "std::vector<torch::Tensor> forward(torch::Tensor left, torch::Tensor right);"

extension = load_inline(
    name="chamfer_distance",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["forward"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def forward(self, left: torch.Tensor, right: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        nearest_right, nearest_left = extension.forward(left, right)
        return nearest_right, nearest_left
