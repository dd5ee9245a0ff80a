import math

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

constexpr int ROWS = 7;
constexpr int BN = 64, BK = 16, STAGES = 3;
constexpr unsigned FULL = 0xffffffffu;

__device__ __forceinline__ float sigmoid(float v) { return 1.0f / (1.0f + expf(-v)); }
__device__ __forceinline__ float silu(float v) { return v / (1.0f + expf(-v)); }

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(FULL, v, o);
    return v;
}

__device__ __forceinline__ void copy4(float* to, const float* from, bool valid) {
    const unsigned d = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const int n = valid ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(d), "l"(from), "r"(n) : "memory");
}
__device__ __forceinline__ void copy16(float* to, const float* from, bool valid) {
    const unsigned d = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const int n = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(d), "l"(from), "r"(n) : "memory");
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ __forceinline__ void wait_groups() {
    asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory");
}

// One block a plane: y = silu(depthwise(x)), and the mean of y.
template <bool VEC>
__global__ void __launch_bounds__(128)
depthwise_silu(const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
               float* __restrict__ y, float* __restrict__ means, int channels, int height, int width) {
    const int64_t plane = blockIdx.x;
    const int channel = static_cast<int>(plane % channels);
    const float* in = x + plane * height * width;
    float* to = y + plane * height * width;
    const int quads = (width + 3) / 4;
    const int items = quads * ((height + ROWS - 1) / ROWS);
    float w[9];
#pragma unroll
    for (int i = 0; i < 9; i++) w[i] = __ldg(weight + channel * 9 + i);
    const float b = __ldg(bias + channel);
    float sum = 0.0f;
    for (int item = threadIdx.x; item < items; item += blockDim.x) {
        const int strip = item / quads;
        const int x0 = (item - strip * quads) * 4, y0 = strip * ROWS;
        float acc[ROWS][4];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int c = 0; c < 4; c++) acc[r][c] = b;
#pragma unroll
        for (int r = 0; r < ROWS + 2; r++) {
            const int yi = y0 + r - 1;
            float v[6];
#pragma unroll
            for (int i = 0; i < 6; i++) v[i] = 0.0f;
            if (yi >= 0 && yi < height) {
                const float* line = in + yi * width + x0;
                if (VEC) {
                    if (x0 > 0) v[0] = __ldg(line - 1);
                    const float4 m = __ldg(reinterpret_cast<const float4*>(line));
                    v[1] = m.x; v[2] = m.y; v[3] = m.z; v[4] = m.w;
                    if (x0 + 4 < width) v[5] = __ldg(line + 4);
                } else {
#pragma unroll
                    for (int i = 0; i < 6; i++) {
                        const int xx = x0 + i - 1;
                        if (xx >= 0 && xx < width) v[i] = __ldg(line + i - 1);
                    }
                }
            }
#pragma unroll
            for (int k = 0; k < 3; k++) {
                const int o = r - k;
                if (o >= 0 && o < ROWS) {
#pragma unroll
                    for (int kx = 0; kx < 3; kx++)
#pragma unroll
                        for (int c = 0; c < 4; c++) acc[o][c] = fmaf(w[k * 3 + kx], v[c + kx], acc[o][c]);
                }
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (y0 + r < height) {
                float* line = to + (y0 + r) * width + x0;
                float s[4];
#pragma unroll
                for (int c = 0; c < 4; c++) s[c] = silu(acc[r][c]);
                if (VEC) {
                    *reinterpret_cast<float4*>(line) = make_float4(s[0], s[1], s[2], s[3]);
                    sum += (s[0] + s[1]) + (s[2] + s[3]);
                } else {
#pragma unroll
                    for (int c = 0; c < 4; c++)
                        if (x0 + c < width) { line[c] = s[c]; sum += s[c]; }
                }
            }
        }
    }
    __shared__ float partial[4];
    sum = warp_sum(sum);
    if ((threadIdx.x & 31) == 0) partial[threadIdx.x >> 5] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        float total = 0.0f;
        for (int i = 0; i < static_cast<int>(blockDim.x >> 5); i++) total += partial[i];
        means[plane] = total / static_cast<float>(height * width);
    }
}

// scaled[image][c][o] = pointwise[o][c] * gate[image][c], zeros beyond the channels; a block does BK channels c.
__global__ void __launch_bounds__(256)
gate_weights(const float* __restrict__ means, const float* __restrict__ w1, const float* __restrict__ b1,
             const float* __restrict__ w2, const float* __restrict__ b2, const float* __restrict__ pointwise,
             float* __restrict__ scaled, int channels, int squeezed, int kp, int mp) {
    extern __shared__ float hidden[];  // squeezed
    __shared__ float gates[BK];
    const int64_t image = blockIdx.y;
    const int c0 = blockIdx.x * BK;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const float* mean = means + image * channels;
    for (int h = warp; h < squeezed; h += 8) {
        float s = 0.0f;
        for (int c = lane; c < channels; c += 32) s = fmaf(w1[h * channels + c], mean[c], s);
        s = warp_sum(s);
        if (lane == 0) hidden[h] = silu(s + b1[h]);
    }
    __syncthreads();
    for (int i = warp; i < BK; i += 8) {
        const int c = c0 + i;
        float s = 0.0f;
        if (c < channels)
            for (int h = lane; h < squeezed; h += 32) s = fmaf(w2[c * squeezed + h], hidden[h], s);
        s = warp_sum(s);
        if (lane == 0) gates[i] = c < channels ? sigmoid(s + b2[c]) : 0.0f;
    }
    __syncthreads();
    float* to = scaled + (image * kp + c0) * mp;
    for (int e = threadIdx.x; e < BK * mp; e += 256) {
        const int i = e / mp, o = e - i * mp;
        const int c = c0 + i;
        to[e] = (c < channels && o < channels) ? pointwise[o * channels + c] * gates[i] : 0.0f;
    }
}

// out[image][o][p] = x[image][o][p] + bias[o] + sum over c of scaled[image][c][o] y[image][c][p]
template <int NW>
__global__ void __launch_bounds__(32 * NW, 12 / NW)
pointwise_residual(const float* __restrict__ scaled, const float* __restrict__ y, const float* __restrict__ x,
                   const float* __restrict__ bias, float* __restrict__ out, int channels, int pixels, int kp, int mp,
                   int tiles, int vec) {
    constexpr int BM = 32 * NW, THREADS = 32 * NW;
    constexpr int AS = BK * BM, BS = BK * BN;
    extern __shared__ __align__(16) float smem[];
    const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    const int64_t image = blockIdx.x / tiles;
    const int p0 = (blockIdx.x % tiles) * BN;
    const int m0 = blockIdx.y * BM;
    const int ng = lane & 7, mg = lane >> 3;
    const float* a = scaled + image * kp * mp + m0;
    const float* b = y + image * channels * pixels;
    const int chunks = kp / BK;

    auto load = [&](int chunk) {
        float* as = smem + (chunk % STAGES) * (AS + BS);
        float* bs = as + AS;
        const int k0 = chunk * BK;
        for (int e = t; e < AS / 4; e += THREADS) {
            const int k = e / (BM / 4), m = e % (BM / 4) * 4;
            copy16(as + e * 4, a + static_cast<int64_t>(k0 + k) * mp + m, true);
        }
        if (vec) {
            for (int e = t; e < BS / 4; e += THREADS) {
                const int k = k0 + e / (BN / 4), p = p0 + e % (BN / 4) * 4;
                const bool ok = k < channels && p < pixels;
                copy16(bs + e * 4, ok ? b + static_cast<int64_t>(k) * pixels + p : y, ok);
            }
        } else {
            for (int e = t; e < BS; e += THREADS) {
                const int k = k0 + e / BN, p = p0 + e % BN;
                const bool ok = k < channels && p < pixels;
                copy4(bs + e, ok ? b + static_cast<int64_t>(k) * pixels + p : y, ok);
            }
        }
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
        const float* as = smem + (chunk % STAGES) * (AS + BS) + warp * 32 + mg * 4;
        const float* bs = smem + (chunk % STAGES) * (AS + BS) + AS + ng * 4;
#pragma unroll 8
        for (int k = 0; k < BK; k++) {
            const float4 a0 = *reinterpret_cast<const float4*>(as + k * BM);
            const float4 a1 = *reinterpret_cast<const float4*>(as + k * BM + 16);
            const float4 b0 = *reinterpret_cast<const float4*>(bs + k * BN);
            const float4 b1 = *reinterpret_cast<const float4*>(bs + k * BN + 32);
            const float av[8] = {a0.x, a0.y, a0.z, a0.w, a1.x, a1.y, a1.z, a1.w};
            const float bv[8] = {b0.x, b0.y, b0.z, b0.w, b1.x, b1.y, b1.z, b1.w};
#pragma unroll
            for (int i = 0; i < 8; i++)
#pragma unroll
                for (int j = 0; j < 8; j++) acc[i][j] = fmaf(av[i], bv[j], acc[i][j]);
        }
    }

#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int o = m0 + warp * 32 + mg * 4 + (i & 3) + (i >> 2) * 16;
        if (o < channels) {
            const float extra = __ldg(bias + o);
            const int64_t line = (image * channels + o) * pixels;
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int p = p0 + h * 32 + ng * 4;
                if (vec) {
                    if (p < pixels) {
                        const float4 r = __ldg(reinterpret_cast<const float4*>(x + line + p));
                        __stcs(reinterpret_cast<float4*>(out + line + p),
                               make_float4(r.x + (acc[i][h * 4] + extra), r.y + (acc[i][h * 4 + 1] + extra),
                                           r.z + (acc[i][h * 4 + 2] + extra), r.w + (acc[i][h * 4 + 3] + extra)));
                    }
                } else {
#pragma unroll
                    for (int j = 0; j < 4; j++)
                        if (p + j < pixels) out[line + p + j] = x[line + p + j] + (acc[i][h * 4 + j] + extra);
                }
            }
        }
    }
}

template <int NW>
void launch_pointwise(const float* scaled, const float* y, const float* x, const float* bias, float* out, int batch,
                      int channels, int pixels, int kp, int mp, bool vec, cudaStream_t stream) {
    const int bytes = STAGES * (BK * 32 * NW + BK * BN) * 4;
    C10_CUDA_CHECK(cudaFuncSetAttribute(pointwise_residual<NW>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    const int tiles = (pixels + BN - 1) / BN;
    const dim3 grid(static_cast<unsigned>(static_cast<int64_t>(tiles) * batch), mp / (32 * NW));
    pointwise_residual<NW><<<grid, 32 * NW, bytes, stream>>>(scaled, y, x, bias, out, channels, pixels, kp, mp, tiles,
                                                             vec ? 1 : 0);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

torch::Tensor forward(torch::Tensor x, torch::Tensor dw, torch::Tensor db, torch::Tensor w1, torch::Tensor b1,
                      torch::Tensor w2, torch::Tensor b2, torch::Tensor pw, torch::Tensor pb) {
    for (const auto& tensor : {x, dw, db, w1, b1, w2, b2, pw, pb})
        TORCH_CHECK(tensor.is_cuda() && tensor.scalar_type() == torch::kFloat32, "fp32 tensors on the GPU");
    TORCH_CHECK(x.dim() == 4 && dw.size(0) == x.size(1) && dw.size(2) == 3 && dw.size(3) == 3, "images");
    x = x.contiguous();
    dw = dw.contiguous(); db = db.contiguous();
    w1 = w1.contiguous(); b1 = b1.contiguous();
    w2 = w2.contiguous(); b2 = b2.contiguous();
    pw = pw.contiguous(); pb = pb.contiguous();
    const c10::cuda::CUDAGuard guard(x.device());
    auto out = torch::empty(x.sizes(), x.options());
    if (out.numel() == 0) return out;
    const int batch = static_cast<int>(x.size(0)), channels = static_cast<int>(x.size(1));
    const int height = static_cast<int>(x.size(2)), width = static_cast<int>(x.size(3));
    const int pixels = height * width;
    const int squeezed = static_cast<int>(w1.size(0));
    const int nw = channels <= 64 ? 2 : channels <= 128 ? 4 : 6;
    const int bm = 32 * nw;
    const int kp = (channels + BK - 1) / BK * BK;
    const int mp = (channels + bm - 1) / bm * bm;
    auto y = torch::empty(x.sizes(), x.options());
    auto means = torch::empty({batch, channels}, x.options());
    auto scaled = torch::empty({batch, kp, mp}, x.options());
    const float* xp = x.data_ptr<float>();
    float* yp = y.data_ptr<float>();
    float* op = out.data_ptr<float>();
    float* sp = scaled.data_ptr<float>();
    float* mean = means.data_ptr<float>();
    cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
    const bool aligned = (reinterpret_cast<uintptr_t>(xp) | reinterpret_cast<uintptr_t>(yp) |
                          reinterpret_cast<uintptr_t>(op)) % 16 == 0;
    const int items = (width + 3) / 4 * ((height + ROWS - 1) / ROWS);
    const int threads = items >= 128 ? 128 : (items + 31) / 32 * 32;
    const unsigned planes = static_cast<unsigned>(static_cast<int64_t>(batch) * channels);
    if (aligned && width % 4 == 0)
        depthwise_silu<true><<<planes, threads, 0, stream>>>(xp, dw.data_ptr<float>(), db.data_ptr<float>(), yp, mean,
                                                             channels, height, width);
    else
        depthwise_silu<false><<<planes, threads, 0, stream>>>(xp, dw.data_ptr<float>(), db.data_ptr<float>(), yp, mean,
                                                              channels, height, width);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    gate_weights<<<dim3(kp / BK, batch), 256, squeezed * sizeof(float), stream>>>(
        mean, w1.data_ptr<float>(), b1.data_ptr<float>(), w2.data_ptr<float>(), b2.data_ptr<float>(),
        pw.data_ptr<float>(), sp, channels, squeezed, kp, mp);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    const bool vec = aligned && pixels % 4 == 0;
    const float* bias = pb.data_ptr<float>();
    if (nw == 2) launch_pointwise<2>(sp, yp, xp, bias, op, batch, channels, pixels, kp, mp, vec, stream);
    else if (nw == 4) launch_pointwise<4>(sp, yp, xp, bias, op, batch, channels, pixels, kp, mp, vec, stream);
    else launch_pointwise<6>(sp, yp, xp, bias, op, batch, channels, pixels, kp, mp, vec, stream);
    return out;
}
"""

CPP_SOURCE = """
torch::Tensor forward(torch::Tensor x, torch::Tensor dw, torch::Tensor db, torch::Tensor w1, torch::Tensor b1,
                      torch::Tensor w2, torch::Tensor b2, torch::Tensor pw, torch::Tensor pb);
"""

extension = load_inline(
    name="squeeze_excite_block",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["forward"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, channels: int, squeezed: int):
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.squeeze = nn.Linear(channels, squeezed)
        self.excite = nn.Linear(squeezed, channels)
        self.pointwise = nn.Conv2d(channels, channels, 1)
        nn.init.normal_(self.depthwise.weight, std=0.5)
        nn.init.normal_(self.squeeze.weight, std=3.0 / math.sqrt(channels))
        nn.init.normal_(self.excite.weight, std=2.0 / math.sqrt(squeezed))
        nn.init.normal_(self.pointwise.weight, std=2.0 / math.sqrt(channels))
        for layer in (self.depthwise, self.squeeze, self.excite, self.pointwise):
            nn.init.normal_(layer.bias, std=0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return extension.forward(x, self.depthwise.weight, self.depthwise.bias, self.squeeze.weight, self.squeeze.bias,
                                 self.excite.weight, self.excite.bias, self.pointwise.weight, self.pointwise.bias)
