import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

constexpr int CC = 4;           // input channels a stage
constexpr int STAGES = 3;
constexpr int TW = 16, TH = 8;  // pixels a block
constexpr int PITCH = 20;       // 16 + 2 columns, padded: 8 rows fall on 8 different bank groups
constexpr int PLANE = (TH + 2) * PITCH;

__device__ __forceinline__ void copy4(float* to, const float* from, bool valid) {
    const unsigned d = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const int n = valid ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(d), "l"(from), "r"(n) : "memory");
}
__device__ __forceinline__ void copy16(float* to, const float* from) {
    const unsigned d = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(d), "l"(from) : "memory");
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ __forceinline__ void wait_groups() { asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory"); }

// weight [oc][ic][9] -> packed [oc block][ic padded][9][ocb], zeros outside
__global__ void pack_weights(const float* __restrict__ weight, float* __restrict__ packed, int ic, int oc,
                             int icp, int ocb, int total) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    const int o = i % ocb;
    const int tap = i / ocb % 9;
    const int c = i / (ocb * 9) % icp;
    const int oo = i / (ocb * 9) / icp * ocb + o;
    packed[i] = (oo < oc && c < ic) ? weight[(oo * ic + c) * 9 + tap] : 0.0f;
}

template <int NW>
__global__ void __launch_bounds__(64 * NW, 2)
conv3x3(const float* __restrict__ x, const float* __restrict__ packed, const float* __restrict__ bias,
        float* __restrict__ out, int ic, int icp, int oc, int height, int width, int tiles_x, int tiles, int vec) {
    constexpr int OCB = 32 * NW;
    constexpr int THREADS = 64 * NW;
    constexpr int XS = CC * PLANE;
    constexpr int WS = CC * 9 * OCB;
    extern __shared__ __align__(16) float smem[];  // STAGES x (inputs, weights)

    const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    const int tile = blockIdx.x % tiles;
    const int64_t image = blockIdx.x / tiles;
    const int ocblock = blockIdx.y;
    const int ty0 = tile / tiles_x * TH, tx0 = tile % tiles_x * TW;
    const int row = lane & 7, og = lane >> 3;
    const int xg = warp & 1, ow = warp >> 1;
    const float* xi = x + image * ic * height * width;
    const float* wp = packed + static_cast<int64_t>(ocblock) * icp * 9 * OCB;
    const int chunks = icp / CC;

    auto load = [&](int chunk) {
        float* xs = smem + (chunk % STAGES) * (XS + WS);
        float* ws = xs + XS;
        const int c0 = chunk * CC;
        for (int e = t; e < CC * 180; e += THREADS) {
            const int c = e / 180, rest = e - c * 180;
            const int r = rest / 18, col = rest - r * 18;
            const int y = ty0 + r - 1, xx = tx0 + col - 1;
            const bool ok = c0 + c < ic && y >= 0 && y < height && xx >= 0 && xx < width;
            const float* from = ok ? xi + (static_cast<int64_t>(c0 + c) * height + y) * width + xx : x;
            copy4(xs + c * PLANE + r * PITCH + col, from, ok);
        }
        const float* w = wp + static_cast<int64_t>(c0) * 9 * OCB;
        for (int e = t; e < WS / 4; e += THREADS) copy16(ws + e * 4, w + e * 4);
    };

    float acc[8][8];
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < 8; j++) acc[i][j] = 0.0f;

#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < chunks) load(s);
        commit();
    }
    for (int chunk = 0; chunk < chunks; chunk++) {
        wait_groups<STAGES - 2>();
        __syncthreads();  // this stage has arrived; the stage refilled below is no longer read
        if (chunk + STAGES - 1 < chunks) load(chunk + STAGES - 1);
        commit();
        const float* xs = smem + (chunk % STAGES) * (XS + WS) + row * PITCH + xg * 8;
        const float* ws = smem + (chunk % STAGES) * (XS + WS) + XS + ow * 32 + og * 4;
#pragma unroll 1
        for (int c = 0; c < CC; c++) {
#pragma unroll
            for (int ky = 0; ky < 3; ky++) {
                const float* line = xs + c * PLANE + ky * PITCH;
                const float4 a = *reinterpret_cast<const float4*>(line);
                const float4 b = *reinterpret_cast<const float4*>(line + 4);
                const float2 d = *reinterpret_cast<const float2*>(line + 8);
                const float v[10] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w, d.x, d.y};
#pragma unroll
                for (int kx = 0; kx < 3; kx++) {
                    const float* wl = ws + (c * 9 + ky * 3 + kx) * OCB;
                    const float4 p = *reinterpret_cast<const float4*>(wl);
                    const float4 q = *reinterpret_cast<const float4*>(wl + 16);
                    const float w[8] = {p.x, p.y, p.z, p.w, q.x, q.y, q.z, q.w};
#pragma unroll
                    for (int i = 0; i < 8; i++)
#pragma unroll
                        for (int j = 0; j < 8; j++) acc[i][j] = fmaf(w[i], v[j + kx], acc[i][j]);
                }
            }
        }
    }

    const int y = ty0 + row, x0 = tx0 + xg * 8;
    if (y < height) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const int o = ocblock * OCB + ow * 32 + og * 4 + (i & 3) + (i >> 2) * 16;
            if (o < oc) {
                const float b = __ldg(bias + o);
                float* line = out + ((image * oc + o) * height + y) * width + x0;
                if (vec) {
                    if (x0 < width)
                        *reinterpret_cast<float4*>(line) =
                            make_float4(acc[i][0] + b, acc[i][1] + b, acc[i][2] + b, acc[i][3] + b);
                    if (x0 + 4 < width)
                        *reinterpret_cast<float4*>(line + 4) =
                            make_float4(acc[i][4] + b, acc[i][5] + b, acc[i][6] + b, acc[i][7] + b);
                } else {
#pragma unroll
                    for (int j = 0; j < 8; j++)
                        if (x0 + j < width) line[j] = acc[i][j] + b;
                }
            }
        }
    }
}

__global__ void conv_any(const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
                         float* __restrict__ out, int ic, int oc, int height, int width, int kernel, int oh, int ow,
                         int64_t total) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= total) return;
    const int pad = kernel / 2;
    const int xo = static_cast<int>(i % ow), yo = static_cast<int>(i / ow % oh);
    const int o = static_cast<int>(i / ow / oh % oc);
    const int64_t image = i / ow / oh / oc;
    float s = bias[o];
    for (int c = 0; c < ic; c++)
        for (int ky = 0; ky < kernel; ky++)
            for (int kx = 0; kx < kernel; kx++) {
                const int y = yo + ky - pad, xx = xo + kx - pad;
                if (y >= 0 && y < height && xx >= 0 && xx < width)
                    s = fmaf(weight[((static_cast<int64_t>(o) * ic + c) * kernel + ky) * kernel + kx],
                             x[((image * ic + c) * height + y) * width + xx], s);
            }
    out[i] = s;
}

template <int NW>
void launch(const float* x, const float* weight, const float* bias, float* out, const torch::Tensor& like, int batch,
            int ic, int oc, int height, int width, bool vec, cudaStream_t stream) {
    constexpr int OCB = 32 * NW;
    const int icp = (ic + CC - 1) / CC * CC;
    const int blocks = (oc + OCB - 1) / OCB;
    auto packed = torch::empty({blocks, icp, 9, OCB}, like.options());
    const int total = static_cast<int>(packed.numel());
    pack_weights<<<(total + 255) / 256, 256, 0, stream>>>(weight, packed.data_ptr<float>(), ic, oc, icp, OCB, total);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    const int bytes = STAGES * (CC * PLANE + CC * 9 * OCB) * 4;
    C10_CUDA_CHECK(cudaFuncSetAttribute(conv3x3<NW>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    const int tiles_x = (width + TW - 1) / TW;
    const int tiles = tiles_x * ((height + TH - 1) / TH);
    const dim3 grid(static_cast<unsigned>(static_cast<int64_t>(tiles) * batch), blocks);
    conv3x3<NW><<<grid, 64 * NW, bytes, stream>>>(x, packed.data_ptr<float>(), bias, out, ic, icp, oc, height, width,
                                                  tiles_x, tiles, vec ? 1 : 0);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    TORCH_CHECK(x.is_cuda() && x.dim() == 4 && x.scalar_type() == torch::kFloat32 &&
                weight.scalar_type() == torch::kFloat32 && bias.scalar_type() == torch::kFloat32, "fp32 images");
    TORCH_CHECK(weight.size(1) == x.size(1), "channels differ");
    x = x.contiguous();
    weight = weight.contiguous();
    bias = bias.contiguous();
    const c10::cuda::CUDAGuard guard(x.device());
    const int batch = static_cast<int>(x.size(0)), ic = static_cast<int>(x.size(1));
    const int height = static_cast<int>(x.size(2)), width = static_cast<int>(x.size(3));
    const int oc = static_cast<int>(weight.size(0)), kernel = static_cast<int>(weight.size(2));
    const int oh = height + 2 * (kernel / 2) - kernel + 1, ow = width + 2 * (kernel / 2) - kernel + 1;
    auto out = torch::empty({batch, oc, oh, ow}, x.options());
    if (out.numel() == 0) return out;
    const float* xp = x.data_ptr<float>();
    const float* wp = weight.data_ptr<float>();
    const float* bp = bias.data_ptr<float>();
    float* op = out.data_ptr<float>();
    cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
    if (kernel == 3 && weight.size(3) == 3) {
        const bool vec = width % 4 == 0 && reinterpret_cast<uintptr_t>(op) % 16 == 0;
        if (oc <= 32) launch<1>(xp, wp, bp, op, x, batch, ic, oc, height, width, vec, stream);
        else if (oc <= 64) launch<2>(xp, wp, bp, op, x, batch, ic, oc, height, width, vec, stream);
        else launch<3>(xp, wp, bp, op, x, batch, ic, oc, height, width, vec, stream);
    } else {
        const int64_t total = out.numel();
        conv_any<<<static_cast<unsigned>((total + 255) / 256), 256, 0, stream>>>(
            xp, wp, bp, op, ic, oc, height, width, kernel, oh, ow, total);
        C10_CUDA_KERNEL_LAUNCH_CHECK();
    }
    return out;
}
"""

CPP_SOURCE = "torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias);"

extension = load_inline(
    name="conv2d_3x3",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["forward"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel: int):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel, padding=kernel // 2)
        nn.init.normal_(self.conv.bias, std=0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return extension.forward(x, self.conv.weight, self.conv.bias)
