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

constexpr int THREADS = 512, WIDTH = 4096, STAGES = 3;
constexpr int SMEM = STAGES * 2 * WIDTH * 4;

__device__ __forceinline__ void copy16(float* to, const float* from) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" :: "r"(address), "l"(from) : "memory");
}

// Sum of both parts over a block of WARPS warps; the caller alternates between buffers.
template <int WARPS>
__device__ __forceinline__ float2 block_sum(float2 v, float2* buffer) {
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) {
        v.x += __shfl_xor_sync(0xffffffffu, v.x, o);
        v.y += __shfl_xor_sync(0xffffffffu, v.y, o);
    }
    if ((threadIdx.x & 31) == 0) buffer[threadIdx.x >> 5] = v;
    __syncthreads();
    v = buffer[threadIdx.x & (WARPS - 1)];
#pragma unroll
    for (int o = WARPS / 2; o > 0; o >>= 1) {
        v.x += __shfl_xor_sync(0xffffffffu, v.x, o);
        v.y += __shfl_xor_sync(0xffffffffu, v.y, o);
    }
    return v;
}

__device__ __forceinline__ void issue(float* sm, int stage, const float* __restrict__ x, const float* __restrict__ up,
                                      int64_t row, int64_t rows) {
    if (row < rows) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int c = (threadIdx.x + i * THREADS) * 4;
            copy16(sm + stage * 2 * WIDTH + c, x + row * WIDTH + c);
            copy16(sm + (stage * 2 + 1) * WIDTH + c, up + row * WIDTH + c);
        }
    }
    asm volatile("cp.async.commit_group;\n" ::: "memory");
}

__device__ __forceinline__ float one(float x, float u, float s, float mean, float factor, float ms, float along,
                                     float& ds, float& db) {
    const float normal = (x - mean) * factor;
    ds = fmaf(u, normal, ds);
    db += u;
    return factor * (u * s - ms - normal * along);
}

__global__ void __launch_bounds__(THREADS, 2)
gradients_4096(const float* __restrict__ x, const float* __restrict__ up, const float* __restrict__ scale,
               float* __restrict__ gradient, float* __restrict__ partial, int64_t rows) {
    extern __shared__ __align__(16) float sm[];
    __shared__ float2 red[2][THREADS / 32];
    const int64_t step = gridDim.x;
    float4 ds[2], db[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        ds[i] = make_float4(0.f, 0.f, 0.f, 0.f);
        db[i] = make_float4(0.f, 0.f, 0.f, 0.f);
    }
    const float4* scale4 = reinterpret_cast<const float4*>(scale);
    constexpr float inverse = 1.0f / WIDTH;
    issue(sm, 0, x, up, blockIdx.x, rows);
    issue(sm, 1, x, up, blockIdx.x + step, rows);
    int stage = 0;
    for (int64_t row = blockIdx.x; row < rows; row += step) {
        const int ahead = stage + 2 >= STAGES ? stage + 2 - STAGES : stage + 2;
        issue(sm, ahead, x, up, row + 2 * step, rows);
        asm volatile("cp.async.wait_group 2;\n" ::: "memory");
        float4 xv[2], uv[2];
        float2 sums = make_float2(0.f, 0.f);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int c = threadIdx.x + i * THREADS;
            xv[i] = reinterpret_cast<const float4*>(sm + stage * 2 * WIDTH)[c];
            uv[i] = reinterpret_cast<const float4*>(sm + (stage * 2 + 1) * WIDTH)[c];
            const float4 s = __ldg(scale4 + c);
            sums.x += (xv[i].x + xv[i].y) + (xv[i].z + xv[i].w);
            sums.y += (uv[i].x * s.x + uv[i].y * s.y) + (uv[i].z * s.z + uv[i].w * s.w);
        }
        sums = block_sum<THREADS / 32>(sums, red[0]);
        const float mean = sums.x * inverse, ms = sums.y * inverse;
        sums = make_float2(0.f, 0.f);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const float4 s = __ldg(scale4 + threadIdx.x + i * THREADS);
            const float a = xv[i].x - mean, b = xv[i].y - mean, c = xv[i].z - mean, d = xv[i].w - mean;
            sums.x += (a * a + b * b) + (c * c + d * d);
            sums.y += (uv[i].x * s.x * a + uv[i].y * s.y * b) + (uv[i].z * s.z * c + uv[i].w * s.w * d);
        }
        sums = block_sum<THREADS / 32>(sums, red[1]);
        const float factor = rsqrtf(sums.x * inverse + 1e-5f);
        const float along = sums.y * inverse * factor;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int c = threadIdx.x + i * THREADS;
            const float4 s = __ldg(scale4 + c);
            float4 g;
            g.x = one(xv[i].x, uv[i].x, s.x, mean, factor, ms, along, ds[i].x, db[i].x);
            g.y = one(xv[i].y, uv[i].y, s.y, mean, factor, ms, along, ds[i].y, db[i].y);
            g.z = one(xv[i].z, uv[i].z, s.z, mean, factor, ms, along, ds[i].z, db[i].z);
            g.w = one(xv[i].w, uv[i].w, s.w, mean, factor, ms, along, ds[i].w, db[i].w);
            __stcs(reinterpret_cast<float4*>(gradient + row * WIDTH) + c, g);
        }
        stage = stage + 1 == STAGES ? 0 : stage + 1;
    }
    asm volatile("cp.async.wait_group 0;\n" ::: "memory");
    float4* p = reinterpret_cast<float4*>(partial + static_cast<int64_t>(blockIdx.x) * 2 * WIDTH);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        p[threadIdx.x + i * THREADS] = ds[i];
        p[WIDTH / 4 + threadIdx.x + i * THREADS] = db[i];
    }
}

constexpr int PLAIN = 256;

// Any width: rows are read again from cache for every pass; a thread owns its columns of the partial sums.
__global__ void __launch_bounds__(PLAIN)
gradients_any(const float* __restrict__ x, const float* __restrict__ up, const float* __restrict__ scale,
              float* __restrict__ gradient, float* partial, int64_t rows, int width) {
    __shared__ float2 red[2][PLAIN / 32];
    float* ds = partial + static_cast<int64_t>(blockIdx.x) * 2 * width;
    float* db = ds + width;
    for (int c = threadIdx.x; c < width; c += PLAIN) {
        ds[c] = 0.0f;
        db[c] = 0.0f;
    }
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        const float* xr = x + row * width;
        const float* ur = up + row * width;
        float2 sums = make_float2(0.f, 0.f);
        for (int c = threadIdx.x; c < width; c += PLAIN) {
            sums.x += xr[c];
            sums.y += ur[c] * scale[c];
        }
        sums = block_sum<PLAIN / 32>(sums, red[0]);
        const float mean = sums.x / width, ms = sums.y / width;
        sums = make_float2(0.f, 0.f);
        for (int c = threadIdx.x; c < width; c += PLAIN) {
            const float d = xr[c] - mean;
            sums.x += d * d;
            sums.y += ur[c] * scale[c] * d;
        }
        sums = block_sum<PLAIN / 32>(sums, red[1]);
        const float factor = rsqrtf(sums.x / width + 1e-5f);
        const float along = sums.y / width * factor;
        for (int c = threadIdx.x; c < width; c += PLAIN) {
            float a = ds[c], b = db[c];
            gradient[row * width + c] = one(xr[c], ur[c], scale[c], mean, factor, ms, along, a, b);
            ds[c] = a;
            db[c] = b;
        }
    }
}

__global__ void __launch_bounds__(256)
add_partials(const float* __restrict__ partial, float* __restrict__ ds, float* __restrict__ db, int blocks, int width) {
    __shared__ float sums[8][33];
    const int lane = threadIdx.x & 31, part = threadIdx.x >> 5;
    const int column = blockIdx.x * 32 + lane;
    float a = 0.0f, b = 0.0f;
    if (column < 2 * width) {
        const float* p = partial + column;
        int i = part;
#pragma unroll 4
        for (; i + 8 < blocks; i += 16) {
            a += p[static_cast<int64_t>(i) * 2 * width];
            b += p[static_cast<int64_t>(i + 8) * 2 * width];
        }
        if (i < blocks) a += p[static_cast<int64_t>(i) * 2 * width];
    }
    sums[part][lane] = a + b;
    __syncthreads();
    if (part == 0 && column < 2 * width) {
        float total = 0.0f;
#pragma unroll
        for (int i = 0; i < 8; ++i) total += sums[i][lane];
        if (column < width) ds[column] = total;
        else db[column - width] = total;
    }
}

std::vector<torch::Tensor> forward(torch::Tensor x, torch::Tensor up, torch::Tensor scale) {
    TORCH_CHECK(x.is_cuda() && x.scalar_type() == torch::kFloat32 && up.scalar_type() == torch::kFloat32 &&
                scale.scalar_type() == torch::kFloat32 && x.dim() == 2 && x.sizes() == up.sizes(), "two equal fp32 inputs");
    x = x.contiguous();
    up = up.contiguous();
    scale = scale.contiguous();
    const int64_t rows = x.size(0);
    const int width = static_cast<int>(x.size(1));
    auto gradient = torch::empty_like(x);
    if (x.numel() == 0) return {gradient, torch::zeros({width}, x.options()), torch::zeros({width}, x.options())};
    auto ds = torch::empty({width}, x.options());
    auto db = torch::empty({width}, x.options());
    const c10::cuda::CUDAGuard guard(x.device());
    const auto stream = c10::cuda::getCurrentCUDAStream();
    int processors = 132;
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, x.get_device()));
    const int blocks = static_cast<int>(std::min<int64_t>(rows, 2 * processors));
    auto partial = torch::empty({blocks, 2, width}, x.options());
    const auto address = reinterpret_cast<uintptr_t>(x.data_ptr()) | reinterpret_cast<uintptr_t>(up.data_ptr()) |
                         reinterpret_cast<uintptr_t>(scale.data_ptr()) | reinterpret_cast<uintptr_t>(gradient.data_ptr());
    if (width == WIDTH && address % 16 == 0) {
        C10_CUDA_CHECK(cudaFuncSetAttribute(gradients_4096, cudaFuncAttributeMaxDynamicSharedMemorySize, SMEM));
        gradients_4096<<<blocks, THREADS, SMEM, stream>>>(
            x.data_ptr<float>(), up.data_ptr<float>(), scale.data_ptr<float>(), gradient.data_ptr<float>(),
            partial.data_ptr<float>(), rows);
    } else {
        gradients_any<<<blocks, PLAIN, 0, stream>>>(
            x.data_ptr<float>(), up.data_ptr<float>(), scale.data_ptr<float>(), gradient.data_ptr<float>(),
            partial.data_ptr<float>(), rows, width);
    }
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    add_partials<<<(2 * width + 31) / 32, 256, 0, stream>>>(
        partial.data_ptr<float>(), ds.data_ptr<float>(), db.data_ptr<float>(), blocks, width);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return {gradient, ds, db};
}
"""

CPP_SOURCE = "std::vector<torch::Tensor> forward(torch::Tensor x, torch::Tensor up, torch::Tensor scale);"

extension = load_inline(
    name="layer_norm_gradients",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["forward"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.scale = nn.Parameter(0.5 + torch.rand(features))

    def forward(
        self, x: torch.Tensor, upstream: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        gradient, scale, shift = extension.forward(x, upstream, self.scale.detach())
        return gradient, scale, shift
