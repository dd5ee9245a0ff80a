import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

constexpr int ROWS = 7;

template <bool VEC>
__global__ void __launch_bounds__(256, 3)
depthwise5(const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
           float* __restrict__ out, int channels, int height, int width, int quads, int items, int chunks) {
    const int64_t plane = blockIdx.x / chunks;
    const int item = (blockIdx.x % chunks) * blockDim.x + threadIdx.x;
    if (item >= items) return;
    const int channel = static_cast<int>(plane % channels);
    const int strip = item / quads;
    const int x0 = (item - strip * quads) * 4;
    const int y0 = strip * ROWS;
    const float* in = x + plane * height * width;
    float* to = out + plane * height * width;

    float w[25];
#pragma unroll
    for (int i = 0; i < 25; i++) w[i] = __ldg(weight + channel * 25 + i);
    const float b = __ldg(bias + channel);
    float acc[ROWS][4];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int c = 0; c < 4; c++) acc[r][c] = b;

#pragma unroll
    for (int r = 0; r < ROWS + 4; r++) {
        const int y = y0 + r - 2;
        float v[8];
#pragma unroll
        for (int i = 0; i < 8; i++) v[i] = 0.0f;
        if (y >= 0 && y < height) {
            const float* line = in + y * width + x0;
            if (VEC) {
                if (x0 > 0) {
                    const float2 a = __ldg(reinterpret_cast<const float2*>(line - 2));
                    v[0] = a.x; v[1] = a.y;
                }
                const float4 m = __ldg(reinterpret_cast<const float4*>(line));
                v[2] = m.x; v[3] = m.y; v[4] = m.z; v[5] = m.w;
                if (x0 + 4 < width) {
                    const float2 a = __ldg(reinterpret_cast<const float2*>(line + 4));
                    v[6] = a.x; v[7] = a.y;
                }
            } else {
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    const int xx = x0 + i - 2;
                    if (xx >= 0 && xx < width) v[i] = __ldg(line + i - 2);
                }
            }
        }
#pragma unroll
        for (int k = 0; k < 5; k++) {
            const int o = r - k;  // output row of this strip that meets filter row k here
            if (o >= 0 && o < ROWS) {
#pragma unroll
                for (int kx = 0; kx < 5; kx++)
#pragma unroll
                    for (int c = 0; c < 4; c++) acc[o][c] = fmaf(w[k * 5 + kx], v[c + kx], acc[o][c]);
            }
        }
        if (r >= 4) {
            const int o = r - 4;
            const int yo = y0 + o;
            if (yo < height) {
                float* line = to + yo * width + x0;
                if (VEC) {
                    __stcs(reinterpret_cast<float4*>(line), make_float4(acc[o][0], acc[o][1], acc[o][2], acc[o][3]));
                } else {
#pragma unroll
                    for (int c = 0; c < 4; c++)
                        if (x0 + c < width) line[c] = acc[o][c];
                }
            }
        }
    }
}

__global__ void depthwise_any(const float* __restrict__ x, const float* __restrict__ weight,
                              const float* __restrict__ bias, float* __restrict__ out, int channels, int height,
                              int width, int kernel, int oh, int ow, int64_t total) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= total) return;
    const int pad = kernel / 2;
    const int xo = static_cast<int>(i % ow);
    const int yo = static_cast<int>(i / ow % oh);
    const int64_t plane = i / ow / oh;
    const int channel = static_cast<int>(plane % channels);
    float s = bias[channel];
    for (int ky = 0; ky < kernel; ky++)
        for (int kx = 0; kx < kernel; kx++) {
            const int y = yo + ky - pad, xx = xo + kx - pad;
            if (y >= 0 && y < height && xx >= 0 && xx < width)
                s = fmaf(weight[(channel * kernel + ky) * kernel + kx], x[(plane * height + y) * width + xx], s);
        }
    out[i] = s;
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    TORCH_CHECK(x.is_cuda() && x.dim() == 4 && x.scalar_type() == torch::kFloat32 &&
                weight.scalar_type() == torch::kFloat32 && bias.scalar_type() == torch::kFloat32, "fp32 images");
    TORCH_CHECK(weight.size(0) == x.size(1), "channels differ");
    x = x.contiguous();
    weight = weight.contiguous();
    bias = bias.contiguous();
    const c10::cuda::CUDAGuard guard(x.device());
    const int kernel = static_cast<int>(weight.size(-1));
    const int channels = static_cast<int>(x.size(1));
    const int height = static_cast<int>(x.size(2)), width = static_cast<int>(x.size(3));
    const int oh = height + 2 * (kernel / 2) - kernel + 1, ow = width + 2 * (kernel / 2) - kernel + 1;
    const int64_t planes = x.size(0) * channels;
    auto out = torch::empty({x.size(0), channels, oh, ow}, x.options());
    if (out.numel() == 0) return out;
    const float* xp = x.data_ptr<float>();
    const float* wp = weight.data_ptr<float>();
    const float* bp = bias.data_ptr<float>();
    float* op = out.data_ptr<float>();
    auto stream = c10::cuda::getCurrentCUDAStream();
    if (kernel == 5) {
        const int quads = (width + 3) / 4;
        const int items = quads * ((height + ROWS - 1) / ROWS);
        const int chunks = (items + 255) / 256;
        const int threads = ((items + chunks - 1) / chunks + 31) / 32 * 32;
        const unsigned grid = static_cast<unsigned>(planes * chunks);
        const bool vec = width % 4 == 0 &&
            (reinterpret_cast<uintptr_t>(xp) | reinterpret_cast<uintptr_t>(op)) % 16 == 0;
        if (vec)
            depthwise5<true><<<grid, threads, 0, stream>>>(xp, wp, bp, op, channels, height, width, quads, items, chunks);
        else
            depthwise5<false><<<grid, threads, 0, stream>>>(xp, wp, bp, op, channels, height, width, quads, items, chunks);
    } else {
        const int64_t total = out.numel();
        depthwise_any<<<static_cast<unsigned>((total + 255) / 256), 256, 0, stream>>>(
            xp, wp, bp, op, channels, height, width, kernel, oh, ow, total);
    }
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""

CPP_SOURCE = "torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias);"

extension = load_inline(
    name="depthwise_conv2d",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["forward"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, channels: int, kernel: int):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, kernel, padding=kernel // 2, groups=channels)
        nn.init.normal_(self.conv.bias, std=0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return extension.forward(x, self.conv.weight, self.conv.bias)
