import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

constexpr int THREADS = 128, TILE = 2048, QUEUE = 16, STEP = 4;
constexpr unsigned FULL = 0xffffffffu;

__device__ __forceinline__ float infinity() { return __int_as_float(0x7f800000); }

template <int K>
__device__ __forceinline__ void flush(float (&list)[K], const float* queue, int& waiting) {
    const int most = __reduce_max_sync(FULL, waiting);
    for (int j = 0; j < most; ++j) {
        float v = j < waiting ? queue[j * THREADS] : infinity();
#pragma unroll
        for (int i = 0; i < K; ++i) {
            const float small = fminf(list[i], v);
            v = fmaxf(list[i], v);
            list[i] = small;
        }
    }
    waiting = 0;
}

// K is the length of the list, at least `chosen`.
template <int K>
__global__ void __launch_bounds__(THREADS)
nearest(const float* __restrict__ queries, const float* __restrict__ points, float* __restrict__ out, int count,
        int size, int chosen, bool aligned) {
    __shared__ __align__(16) float px[TILE];
    __shared__ __align__(16) float py[TILE];
    __shared__ __align__(16) float pz[TILE];
    __shared__ float queues[QUEUE * THREADS];
    float* const queue = queues + threadIdx.x;  // entry j at j * THREADS

    const int64_t cloud = blockIdx.y;
    const float* source = points + cloud * size * 3;
    const int index = blockIdx.x * THREADS + threadIdx.x;
    const bool valid = index < count;
    const float* q = queries + (cloud * count + (valid ? index : count - 1)) * 3;
    const float qx = q[0], qy = q[1], qz = q[2];

    float list[K];
#pragma unroll
    for (int i = 0; i < K; ++i) list[i] = infinity();
    int waiting = 0;

    for (int begin = 0; begin < size; begin += TILE) {
        const int here = min(TILE, size - begin);
        const int padded = (here + STEP - 1) / STEP * STEP;
        __syncthreads();
        for (int i = threadIdx.x; i < padded; i += THREADS) {
            const bool inside = i < here;
            const float* p = source + static_cast<int64_t>(begin + (inside ? i : 0)) * 3;
            px[i] = inside ? p[0] : infinity();
            py[i] = inside ? p[1] : infinity();
            pz[i] = inside ? p[2] : infinity();
        }
        __syncthreads();
#pragma unroll 2
        for (int i = 0; i < padded; i += STEP) {
            const float4 x = *reinterpret_cast<const float4*>(px + i);
            const float4 y = *reinterpret_cast<const float4*>(py + i);
            const float4 z = *reinterpret_cast<const float4*>(pz + i);
            const float ax = qx - x.x, ay = qy - y.x, az = qz - z.x;
            const float bx = qx - x.y, by = qy - y.y, bz = qz - z.y;
            const float cx = qx - x.z, cy = qy - y.z, cz = qz - z.z;
            const float dx = qx - x.w, dy = qy - y.w, dz = qz - z.w;
            const float da = fmaf(az, az, fmaf(ay, ay, ax * ax));
            const float db = fmaf(bz, bz, fmaf(by, by, bx * bx));
            const float dc = fmaf(cz, cz, fmaf(cy, cy, cx * cx));
            const float dd = fmaf(dz, dz, fmaf(dy, dy, dx * dx));
            const float worst = list[K - 1];
            if (da < worst) { queue[waiting * THREADS] = da; ++waiting; }
            if (db < worst) { queue[waiting * THREADS] = db; ++waiting; }
            if (dc < worst) { queue[waiting * THREADS] = dc; ++waiting; }
            if (dd < worst) { queue[waiting * THREADS] = dd; ++waiting; }
            if (__any_sync(FULL, waiting > QUEUE - STEP)) flush<K>(list, queue, waiting);
        }
    }
    flush<K>(list, queue, waiting);

    if (valid) {
        float* target = out + (cloud * count + index) * chosen;
        if (K == 16 && chosen == 16 && aligned) {
#pragma unroll
            for (int i = 0; i < K / 4; ++i)
                reinterpret_cast<float4*>(target)[i] =
                    make_float4(list[4 * i], list[4 * i + 1], list[4 * i + 2], list[4 * i + 3]);
        } else {
#pragma unroll
            for (int i = 0; i < K; ++i)
                if (i < chosen) target[i] = list[i];
        }
    }
}

torch::Tensor forward(torch::Tensor queries, torch::Tensor points, int64_t chosen) {
    TORCH_CHECK(queries.is_cuda() && queries.scalar_type() == torch::kFloat32 && queries.dim() == 3 &&
                points.scalar_type() == torch::kFloat32 && points.dim() == 3 && queries.size(2) >= 3 &&
                queries.size(2) == 3 && points.size(2) == 3 && queries.size(0) == points.size(0), "fp32 clouds");
    TORCH_CHECK(chosen >= 1 && chosen <= 32 && chosen <= points.size(1), "at most 32 neighbours");
    queries = queries.contiguous();
    points = points.contiguous();
    const int clouds = static_cast<int>(queries.size(0)), count = static_cast<int>(queries.size(1));
    const int size = static_cast<int>(points.size(1)), k = static_cast<int>(chosen);
    auto out = torch::empty({clouds, count, k}, queries.options());
    if (out.numel() == 0) return out;
    TORCH_CHECK(clouds <= 65535, "at most 65535 clouds");
    const c10::cuda::CUDAGuard guard(queries.device());
    const auto stream = c10::cuda::getCurrentCUDAStream();
    const dim3 grid((count + THREADS - 1) / THREADS, clouds);
    const bool aligned = reinterpret_cast<uintptr_t>(out.data_ptr()) % 16 == 0;
    const float* q = queries.data_ptr<float>();
    const float* p = points.data_ptr<float>();
    float* to = out.data_ptr<float>();
    if (k <= 8)
        nearest<8><<<grid, THREADS, 0, stream>>>(q, p, to, count, size, k, aligned);
    else if (k <= 16)
        nearest<16><<<grid, THREADS, 0, stream>>>(q, p, to, count, size, k, aligned);
    else
        nearest<32><<<grid, THREADS, 0, stream>>>(q, p, to, count, size, k, aligned);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""

CPP_SOURCE = "torch::Tensor forward(torch::Tensor queries, torch::Tensor points, int64_t chosen);"

extension = load_inline(
    name="nearest_neighbors",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["forward"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, chosen: int):
        super().__init__()
        self.chosen = chosen

    def forward(self, queries: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
        return extension.forward(queries, points, self.chosen)
