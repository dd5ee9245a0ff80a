import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

constexpr int THREADS = 128, HALO = 8, USEFUL = 128 - 2 * HALO, AHEAD = 4, MOST = 6;
constexpr unsigned FULL = 0xffffffffu;

struct Row {
    float v[4];
};

template <bool VECTOR>
__device__ __forceinline__ Row read_row(const float* __restrict__ row, const int (&column)[4]) {
    Row r;
    if (VECTOR) {
        const float4 v = *reinterpret_cast<const float4*>(row + column[0]);
        r.v[0] = v.x;
        r.v[1] = v.y;
        r.v[2] = v.z;
        r.v[3] = v.w;
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) r.v[i] = row[column[i]];
    }
    return r;
}

template <int T, bool VECTOR>
__global__ void __launch_bounds__(THREADS, 4)
sweeps(const float* __restrict__ field, const float* __restrict__ weights, float* __restrict__ out, int height,
       int width, int strips, int segments, int segment_rows) {
    const int warp = blockIdx.x * (THREADS / 32) + (threadIdx.x >> 5), lane = threadIdx.x & 31;
    if (warp >= strips * segments) return;
    const int strip = warp % strips, segment = warp / strips;
    const int y0 = segment * segment_rows, y1 = min(y0 + segment_rows, height);
    if (y0 >= y1) return;

    float centre = weights[0], edge = weights[1], corner = weights[2];
    const float whole = centre + 4.0f * edge + 4.0f * corner;
    centre /= whole;
    edge /= whole;
    corner /= whole;

    // This lane's columns, and the same on the torus.
    const int x0 = strip * USEFUL - HALO + lane * 4;
    int column[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        int x = (x0 + i) % width;
        column[i] = x < 0 ? x + width : x;
    }
    const bool writes = lane >= HALO / 4 && lane < 32 - HALO / 4;

    int source = (y0 - T) % height;
    if (source < 0) source += height;

    float before[T][4], part[T][4];  // A of the previous row; A of the row before it plus B of the previous one
#pragma unroll
    for (int t = 0; t < T; ++t)
#pragma unroll
        for (int i = 0; i < 4; ++i) before[t][i] = part[t][i] = 0.0f;

    const int count = y1 - y0 + 2 * T;
    Row ahead[AHEAD];
#pragma unroll
    for (int j = 0; j < AHEAD; ++j) {
        if (j < count) {
            ahead[j] = read_row<VECTOR>(field + static_cast<int64_t>(source) * width, column);
            source = source + 1 == height ? 0 : source + 1;
        } else {
#pragma unroll
            for (int i = 0; i < 4; ++i) ahead[j].v[i] = 0.0f;
        }
    }

    for (int base = 0; base < count; base += AHEAD) {
#pragma unroll
        for (int j = 0; j < AHEAD; ++j) {
            const int step = base + j;
            Row c = ahead[j];
            if (step + AHEAD < count) {
                ahead[j] = read_row<VECTOR>(field + static_cast<int64_t>(source) * width, column);
                source = source + 1 == height ? 0 : source + 1;
            }
#pragma unroll
            for (int t = 0; t < T; ++t) {
                const float left = __shfl_up_sync(FULL, c.v[3], 1);
                const float right = __shfl_down_sync(FULL, c.v[0], 1);
                float s[4];
                s[0] = left + c.v[1];
                s[1] = c.v[0] + c.v[2];
                s[2] = c.v[1] + c.v[3];
                s[3] = c.v[2] + right;
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const float a = fmaf(edge, c.v[i], corner * s[i]);
                    const float done = part[t][i] + a;
                    part[t][i] = fmaf(centre, c.v[i], fmaf(edge, s[i], before[t][i]));
                    before[t][i] = a;
                    c.v[i] = done;
                }
            }
            if (step >= 2 * T && step < count && writes) {
                const int x = x0, y = y0 + step - 2 * T;
                float* row = out + static_cast<int64_t>(y) * width;
                if (VECTOR) {
                    if (x < width)
                        __stcs(reinterpret_cast<float4*>(row + x), make_float4(c.v[0], c.v[1], c.v[2], c.v[3]));
                } else {
#pragma unroll
                    for (int i = 0; i < 4; ++i)
                        if (x + i < width) row[x + i] = c.v[i];
                }
            }
        }
    }
}

template <int T>
void launch(const float* field, const float* weights, float* out, int height, int width, bool vector, int processors,
            cudaStream_t stream) {
    const int strips = (width + USEFUL - 1) / USEFUL;
    int segments = processors * 16 / strips;
    const int most = (height + 15) / 16;
    segments = segments < 1 ? 1 : (segments > most ? most : segments);
    const int rows = (height + segments - 1) / segments;
    segments = (height + rows - 1) / rows;
    const int64_t warps = static_cast<int64_t>(strips) * segments;
    const unsigned blocks = static_cast<unsigned>((warps + THREADS / 32 - 1) / (THREADS / 32));
    if (vector)
        sweeps<T, true><<<blocks, THREADS, 0, stream>>>(field, weights, out, height, width, strips, segments, rows);
    else
        sweeps<T, false><<<blocks, THREADS, 0, stream>>>(field, weights, out, height, width, strips, segments, rows);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

torch::Tensor forward(torch::Tensor field, torch::Tensor weights, int64_t count) {
    TORCH_CHECK(field.is_cuda() && field.scalar_type() == torch::kFloat32 && field.dim() == 2, "an fp32 field");
    TORCH_CHECK(weights.is_cuda() && weights.scalar_type() == torch::kFloat32 && weights.numel() == 3, "three weights");
    field = field.contiguous();
    weights = weights.contiguous();
    if (count <= 0) return field.clone();
    const int height = static_cast<int>(field.size(0)), width = static_cast<int>(field.size(1));
    auto out = torch::empty(field.sizes(), field.options());
    if (field.numel() == 0) return out;
    const c10::cuda::CUDAGuard guard(field.device());
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
    int processors = 132;
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, field.get_device()));
    torch::Tensor source = field;
    while (count > 0) {
        const int now = static_cast<int>(count < MOST ? count : MOST);
        count -= now;
        torch::Tensor target = count == 0 ? out : torch::empty(field.sizes(), field.options());
        const auto address =
            reinterpret_cast<uintptr_t>(source.data_ptr()) | reinterpret_cast<uintptr_t>(target.data_ptr());
        const bool vector = width % 4 == 0 && address % 16 == 0;
        const float* from = source.data_ptr<float>();
        const float* w = weights.data_ptr<float>();
        float* to = target.data_ptr<float>();
        switch (now) {
            case 1: launch<1>(from, w, to, height, width, vector, processors, stream); break;
            case 2: launch<2>(from, w, to, height, width, vector, processors, stream); break;
            case 3: launch<3>(from, w, to, height, width, vector, processors, stream); break;
            case 4: launch<4>(from, w, to, height, width, vector, processors, stream); break;
            case 5: launch<5>(from, w, to, height, width, vector, processors, stream); break;
            default: launch<6>(from, w, to, height, width, vector, processors, stream); break;
        }
        source = target;
    }
    return out;
}
"""

CPP_SOURCE = "torch::Tensor forward(torch::Tensor field, torch::Tensor weights, int64_t count);"

extension = load_inline(
    name="stencil_nine_point",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["forward"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, sweeps: int):
        super().__init__()
        self.weights = nn.Parameter(torch.tensor([0.4, 0.3, 0.2]) + 0.1 * torch.rand(3))
        self.sweeps = sweeps

    def forward(self, field: torch.Tensor) -> torch.Tensor:
        return extension.forward(field, self.weights, self.sweeps)
