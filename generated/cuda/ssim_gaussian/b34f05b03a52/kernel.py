import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cmath>

constexpr int THREADS = 288;
constexpr int COLUMNS = 256;    // outputs of a block in a row
constexpr int PITCH = 272;      // columns of the shared tile: COLUMNS + 16
constexpr int GROUP = 4;        // rows between synchronisations
constexpr int STRIP = 92;       // output rows of a block, a multiple of GROUP

template <int TAPS> struct Window { float w[TAPS]; };

template <int TAPS>
__global__ void __launch_bounds__(THREADS, 2)
ssim(const float* __restrict__ left, const float* __restrict__ right, float* __restrict__ out, int height, int width,
     const Window<TAPS> window, bool wide) {
    constexpr int HALF = TAPS / 2;
    constexpr int SUMS = TAPS - 1;
    constexpr int WARM = (TAPS - 1 + GROUP - 1) / GROUP * GROUP;   // rows read before the first output
    __shared__ __align__(16) float tile[2][GROUP][4][PITCH];
    const int x0 = blockIdx.x * COLUMNS, y0 = blockIdx.y * STRIP;
    const int rows = min(STRIP, height - y0);
    const int64_t image = static_cast<int64_t>(blockIdx.z) * height * width;
    const int thread = threadIdx.x;
    const int column = x0 - HALF + thread;
    const bool column_in = thread < PITCH && column >= 0 && column < width;
    const float* l = left + image + column;
    const float* r = right + image + column;
    const int top = y0 + HALF - WARM;     // image row of iteration 0
    const int bottom = min(height, y0 + rows + HALF);   // rows from here on matter to no output

    float sum[4][SUMS];
#pragma unroll
    for (int m = 0; m < 4; ++m)
#pragma unroll
        for (int k = 0; k < SUMS; ++k) sum[m][k] = 0.0f;

    float next_l[GROUP], next_r[GROUP];
#pragma unroll
    for (int g = 0; g < GROUP; ++g) {
        const int y = top + g;
        const bool in = column_in && y >= 0 && y < bottom;
        next_l[g] = in ? l[static_cast<int64_t>(y) * width] : 0.0f;
        next_r[g] = in ? r[static_cast<int64_t>(y) * width] : 0.0f;
    }

    int buffer = 0;
    for (int i = 0; i < rows + WARM; i += GROUP) {
        float now_l[GROUP], now_r[GROUP];
#pragma unroll
        for (int g = 0; g < GROUP; ++g) {
            now_l[g] = next_l[g];
            now_r[g] = next_r[g];
            const int y = top + i + GROUP + g;
            const bool in = column_in && y >= 0 && y < bottom;
            next_l[g] = in ? l[static_cast<int64_t>(y) * width] : 0.0f;
            next_r[g] = in ? r[static_cast<int64_t>(y) * width] : 0.0f;
        }
        const bool ready = i >= WARM;
#pragma unroll
        for (int g = 0; g < GROUP; ++g) {
            const float a = now_l[g], b = now_r[g];
            const float v[4] = {a, b, fmaf(a, a, b * b), a * b};
#pragma unroll
            for (int m = 0; m < 4; ++m) {
                const float done = fmaf(window.w[TAPS - 1], v[m], sum[m][0]);
#pragma unroll
                for (int k = 0; k < SUMS - 1; ++k) sum[m][k] = fmaf(window.w[TAPS - 2 - k], v[m], sum[m][k + 1]);
                sum[m][SUMS - 1] = window.w[0] * v[m];
                if (ready && thread < PITCH) tile[buffer][g][m][thread] = done;
            }
        }
        if (ready) {
            __syncthreads();
            const int g = thread / (COLUMNS / 4), q = thread % (COLUMNS / 4);
            const int y = y0 + i - WARM + g, x = x0 + 4 * q;
            if (g < GROUP && y < y0 + rows && x < width) {
                float blurred[4][4];
#pragma unroll
                for (int m = 0; m < 4; ++m) {
                    float v[16];
                    const float4* source = reinterpret_cast<const float4*>(&tile[buffer][g][m][4 * q]);
#pragma unroll
                    for (int k = 0; k < (TAPS + 6) / 4; ++k) {
                        const float4 s = source[k];
                        v[4 * k] = s.x; v[4 * k + 1] = s.y; v[4 * k + 2] = s.z; v[4 * k + 3] = s.w;
                    }
#pragma unroll
                    for (int j = 0; j < 4; ++j) {
                        float s = window.w[0] * v[j];
#pragma unroll
                        for (int k = 1; k < TAPS; ++k) s = fmaf(window.w[k], v[j + k], s);
                        blurred[m][j] = s;
                    }
                }
                float result[4];
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    const float a = blurred[0][j], b = blurred[1][j];
                    const float product = a * b;
                    const float power = fmaf(a, a, b * b);
                    const float likeness = (2.0f * product + 1e-4f) * (2.0f * (blurred[3][j] - product) + 9e-4f);
                    result[j] = likeness / ((power + 1e-4f) * (blurred[2][j] - power + 9e-4f));
                }
                float* target = out + image + static_cast<int64_t>(y) * width + x;
                if (wide) {
                    __stcs(reinterpret_cast<float4*>(target), make_float4(result[0], result[1], result[2], result[3]));
                } else {
#pragma unroll
                    for (int j = 0; j < 4; ++j)
                        if (x + j < width) target[j] = result[j];
                }
            }
            buffer ^= 1;
        }
    }
}

template <int TAPS>
void launch(const torch::Tensor& left, const torch::Tensor& right, torch::Tensor& out, double sigma,
            cudaStream_t stream) {
    Window<TAPS> window;
    double taps[TAPS], total = 0.0;
    for (int k = 0; k < TAPS; ++k) {
        const double z = (k - TAPS / 2) / sigma;
        taps[k] = std::exp(-0.5 * z * z);
        total += taps[k];
    }
    for (int k = 0; k < TAPS; ++k) window.w[k] = static_cast<float>(taps[k] / total);
    const int64_t height = left.size(-2), width = left.size(-1), images = left.numel() / (height * width);
    const bool wide = width % 4 == 0 && reinterpret_cast<uintptr_t>(out.data_ptr()) % 16 == 0;
    const dim3 grid(static_cast<unsigned>((width + COLUMNS - 1) / COLUMNS),
                    static_cast<unsigned>((height + STRIP - 1) / STRIP), static_cast<unsigned>(images));
    ssim<TAPS><<<grid, THREADS, 0, stream>>>(left.data_ptr<float>(), right.data_ptr<float>(), out.data_ptr<float>(),
                                             static_cast<int>(height), static_cast<int>(width), window, wide);
}

torch::Tensor forward(torch::Tensor left, torch::Tensor right, int64_t taps, double sigma) {
    TORCH_CHECK(left.is_cuda() && left.dim() == 4 && left.scalar_type() == torch::kFloat32
                && right.scalar_type() == torch::kFloat32 && left.sizes() == right.sizes(), "two equal fp32 images");
    left = left.contiguous();
    right = right.contiguous();
    auto out = torch::empty_like(left);
    if (out.numel() == 0) return out;
    TORCH_CHECK(left.size(0) * left.size(1) <= 65535, "too many images");
    const c10::cuda::CUDAGuard guard(left.device());
    cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
    switch (taps) {
        case 3: launch<3>(left, right, out, sigma, stream); break;
        case 5: launch<5>(left, right, out, sigma, stream); break;
        case 7: launch<7>(left, right, out, sigma, stream); break;
        case 9: launch<9>(left, right, out, sigma, stream); break;
        case 11: launch<11>(left, right, out, sigma, stream); break;
        case 13: launch<13>(left, right, out, sigma, stream); break;
        default: TORCH_CHECK(false, "an odd window of 3 to 13 taps");
    }
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""

CPP_SOURCE = "torch::Tensor forward(torch::Tensor left, torch::Tensor right, int64_t taps, double sigma);"

extension = load_inline(
    name="ssim_gaussian",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["forward"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, taps: int, width: float):
        super().__init__()
        self.taps, self.width = taps, width

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return extension.forward(left, right, self.taps, float(self.width))
