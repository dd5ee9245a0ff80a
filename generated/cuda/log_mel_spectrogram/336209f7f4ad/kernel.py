import math

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cstdint>

constexpr int THREADS = 320;
constexpr int WINDOW = 400;
constexpr int PLACES = 201;
constexpr int BANDS = 80;
constexpr int TILE = 64;                   // frames a block
constexpr int ROUND = 32;                  // frames transformed at a time
constexpr int STRIDE = 221;                // complex values a frame in shared memory
constexpr int CHUNK = 101;                 // places a step of the product
constexpr int SMEM = ROUND * STRIDE * 8 + PLACES * TILE * 4 + WINDOW * 8;
static_assert(CHUNK * BANDS * 4 <= ROUND * STRIDE * 8, "the bands take the place of the transforms");
static_assert((ROUND * STRIDE * 8) % 16 == 0, "alignment");

__device__ __forceinline__ float2 add(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
__device__ __forceinline__ float2 sub(float2 a, float2 b) { return make_float2(a.x - b.x, a.y - b.y); }
__device__ __forceinline__ float2 mul(float2 a, float2 b) {
    return make_float2(fmaf(a.x, b.x, -a.y * b.y), fmaf(a.x, b.y, a.y * b.x));
}

__device__ __forceinline__ void dft5(float2& x0, float2& x1, float2& x2, float2& x3, float2& x4) {
    constexpr float c1 = 0.30901699437494742f, c2 = -0.80901699437494742f;
    constexpr float s1 = 0.95105651629515357f, s2 = 0.58778525229247313f;
    const float2 t1 = add(x1, x4), t2 = add(x2, x3), t3 = sub(x1, x4), t4 = sub(x2, x3);
    const float2 m1 = make_float2(fmaf(c1, t1.x, fmaf(c2, t2.x, x0.x)), fmaf(c1, t1.y, fmaf(c2, t2.y, x0.y)));
    const float2 m2 = make_float2(fmaf(c2, t1.x, fmaf(c1, t2.x, x0.x)), fmaf(c2, t1.y, fmaf(c1, t2.y, x0.y)));
    const float2 r1 = make_float2(fmaf(s1, t3.x, s2 * t4.x), fmaf(s1, t3.y, s2 * t4.y));
    const float2 r2 = make_float2(fmaf(s2, t3.x, -s1 * t4.x), fmaf(s2, t3.y, -s1 * t4.y));
    x0 = add(x0, add(t1, t2));
    x1 = make_float2(m1.x + r1.y, m1.y - r1.x);
    x4 = make_float2(m1.x - r1.y, m1.y + r1.x);
    x2 = make_float2(m2.x + r2.y, m2.y - r2.x);
    x3 = make_float2(m2.x - r2.y, m2.y + r2.x);
}

// w[a][b] is input (5a + 4b) % 20; output k is left in w[k % 4][k % 5].
__device__ __forceinline__ void dft20(float2 (&w)[4][5]) {
#pragma unroll
    for (int b = 0; b < 5; ++b) {
        const float2 s0 = add(w[0][b], w[2][b]), d0 = sub(w[0][b], w[2][b]);
        const float2 s1 = add(w[1][b], w[3][b]), d1 = sub(w[1][b], w[3][b]);
        w[0][b] = add(s0, s1);
        w[1][b] = make_float2(d0.x + d1.y, d0.y - d1.x);
        w[2][b] = sub(s0, s1);
        w[3][b] = make_float2(d0.x - d1.y, d0.y + d1.x);
    }
#pragma unroll
    for (int a = 0; a < 4; ++a) dft5(w[a][0], w[a][1], w[a][2], w[a][3], w[a][4]);
}

// w[a][b] is input (5a + 2b) % 10; output k is left in w[k % 2][k % 5].
__device__ __forceinline__ void dft10(float2 (&w)[2][5]) {
#pragma unroll
    for (int b = 0; b < 5; ++b) {
        const float2 s = add(w[0][b], w[1][b]), d = sub(w[0][b], w[1][b]);
        w[0][b] = s;
        w[1][b] = d;
    }
#pragma unroll
    for (int a = 0; a < 2; ++a) dft5(w[a][0], w[a][1], w[a][2], w[a][3], w[a][4]);
}

__global__ void __launch_bounds__(256)
transpose_bands(const float* __restrict__ bands, float* __restrict__ out) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < PLACES * BANDS) out[i] = bands[(i % BANDS) * PLACES + i / BANDS];
}

__global__ void __launch_bounds__(THREADS, 2)
mel_400(const float* __restrict__ audio, const float* __restrict__ window, const float* __restrict__ bands_t,
        float* __restrict__ out, int samples, int hop, int frames) {
    extern __shared__ float4 shared4[];
    float2* values = reinterpret_cast<float2*>(shared4);                    // [ROUND][STRIDE], later the bands
    float* power = reinterpret_cast<float*>(values + ROUND * STRIDE);       // [PLACES][TILE]
    float2* turns = reinterpret_cast<float2*>(power + PLACES * TILE);       // [WINDOW]
    const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
    const int f0 = blockIdx.x * TILE;
    const int64_t clip = blockIdx.y;
    for (int i = tid; i < WINDOW; i += THREADS) {
        float s, c;
        sincospif(static_cast<float>(i) / 200.0f, &s, &c);
        turns[i] = make_float2(c, -s);
    }
    __syncthreads();

    const int slot = tid / 10, j = tid % 10;
    float2* mine = values + slot * STRIDE;
    const float2* window2 = reinterpret_cast<const float2*>(window);
#pragma unroll 1
    for (int round = 0; round < TILE / ROUND; ++round) {
        {
            const int frame = f0 + round * ROUND + slot;
            float2 w[4][5];
            if (frame < frames) {
                const float2* p = reinterpret_cast<const float2*>(
                    audio + clip * samples + static_cast<int64_t>(frame) * hop);
#pragma unroll
                for (int a = 0; a < 4; ++a) {
#pragma unroll
                    for (int b = 0; b < 5; ++b) {
                        const int place = 10 * ((5 * a + 4 * b) % 20) + j;
                        const float2 x = __ldg(p + place), h = __ldg(window2 + place);
                        w[a][b] = make_float2(x.x * h.x, x.y * h.y);
                    }
                }
            } else {
#pragma unroll
                for (int a = 0; a < 4; ++a) {
#pragma unroll
                    for (int b = 0; b < 5; ++b) w[a][b] = make_float2(0.0f, 0.0f);
                }
            }
            dft20(w);
#pragma unroll
            for (int k = 0; k < 20; ++k) {
                mine[k * 11 + j] = k == 0 ? w[0][0] : mul(w[k % 4][k % 5], turns[2 * j * k]);
            }
        }
        __syncthreads();
        {
            float2 u[2][5], v[2][5];
#pragma unroll
            for (int a = 0; a < 2; ++a) {
#pragma unroll
                for (int b = 0; b < 5; ++b) {
                    const int n = (5 * a + 2 * b) % 10;
                    u[a][b] = mine[j * 11 + n];
                    v[a][b] = mine[(j + 10) * 11 + n];
                }
            }
            dft10(u);
            dft10(v);
            __syncthreads();
#pragma unroll
            for (int k = 0; k < 10; ++k) {
                mine[j + 20 * k] = u[k % 2][k % 5];
                mine[j + 10 + 20 * k] = v[k % 2][k % 5];
            }
        }
        __syncthreads();
        // Spectrum of the real frame at k and 200 - k; a lane takes a frame.
        const float2* z = values + lane * STRIDE;
        float* column = power + round * ROUND + lane;
#pragma unroll 2
        for (int k = warp; k <= 100; k += THREADS / 32) {
            const float2 a = z[k], b = z[k == 0 ? 0 : 200 - k];
            const float2 even = make_float2(0.5f * (a.x + b.x), 0.5f * (a.y - b.y));
            const float2 odd = mul(make_float2(0.5f * (a.y + b.y), 0.5f * (b.x - a.x)), turns[k]);
            const float2 low = add(even, odd), high = sub(even, odd);
            column[k * TILE] = fmaf(low.x, low.x, low.y * low.y);
            if (k < 100) column[(200 - k) * TILE] = fmaf(high.x, high.x, high.y * high.y);
        }
        __syncthreads();
    }

    // Product of powers and bands: four frames and four bands a thread.
    const int tx = (warp & 1) * 8 + (lane & 7), ty = (warp >> 1) * 4 + (lane >> 3);
    float acc[4][4];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
#pragma unroll
        for (int c = 0; c < 4; ++c) acc[r][c] = 0.0f;
    }
#pragma unroll 1
    for (int k0 = 0; k0 < PLACES; k0 += CHUNK) {
        const int count = min(CHUNK, PLACES - k0);
        const float4* source = reinterpret_cast<const float4*>(bands_t + k0 * BANDS);
        for (int i = tid; i < count * (BANDS / 4); i += THREADS) shared4[i] = __ldg(source + i);
        __syncthreads();
        const float4* pa = reinterpret_cast<const float4*>(power + k0 * TILE) + tx;
        const float4* pb = shared4 + ty;
#pragma unroll 4
        for (int k = 0; k < count; ++k) {
            const float4 a = pa[k * (TILE / 4)], b = pb[k * (BANDS / 4)];
            acc[0][0] = fmaf(a.x, b.x, acc[0][0]);
            acc[0][1] = fmaf(a.y, b.x, acc[0][1]);
            acc[0][2] = fmaf(a.z, b.x, acc[0][2]);
            acc[0][3] = fmaf(a.w, b.x, acc[0][3]);
            acc[1][0] = fmaf(a.x, b.y, acc[1][0]);
            acc[1][1] = fmaf(a.y, b.y, acc[1][1]);
            acc[1][2] = fmaf(a.z, b.y, acc[1][2]);
            acc[1][3] = fmaf(a.w, b.y, acc[1][3]);
            acc[2][0] = fmaf(a.x, b.z, acc[2][0]);
            acc[2][1] = fmaf(a.y, b.z, acc[2][1]);
            acc[2][2] = fmaf(a.z, b.z, acc[2][2]);
            acc[2][3] = fmaf(a.w, b.z, acc[2][3]);
            acc[3][0] = fmaf(a.x, b.w, acc[3][0]);
            acc[3][1] = fmaf(a.y, b.w, acc[3][1]);
            acc[3][2] = fmaf(a.z, b.w, acc[3][2]);
            acc[3][3] = fmaf(a.w, b.w, acc[3][3]);
        }
        __syncthreads();
    }
    const int f = f0 + 4 * tx;
    const bool pairs = frames % 2 == 0;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        float* row = out + (clip * BANDS + 4 * ty + r) * static_cast<int64_t>(frames);
        float value[4];
#pragma unroll
        for (int c = 0; c < 4; ++c) value[c] = logf(acc[r][c] + 1e-6f);
        if (pairs) {
#pragma unroll
            for (int c = 0; c < 4; c += 2) {
                if (f + c < frames) *reinterpret_cast<float2*>(row + f + c) = make_float2(value[c], value[c + 1]);
            }
        } else {
#pragma unroll
            for (int c = 0; c < 4; ++c) {
                if (f + c < frames) row[f + c] = value[c];
            }
        }
    }
}

// Any sizes: a block a frame, the transform as plain sums.
__global__ void __launch_bounds__(256)
mel_any(const float* __restrict__ audio, const float* __restrict__ window, const float* __restrict__ bands,
        float* __restrict__ out, int64_t samples, int width, int hop, int count, int64_t frames) {
    extern __shared__ float2 table[];                       // [width] turns, [width] samples, [places] powers
    float* frame = reinterpret_cast<float*>(table + width);
    float* power = frame + width;
    const int places = width / 2 + 1;
    const int64_t clip = blockIdx.x / frames, f = blockIdx.x % frames;
    const float* p = audio + clip * samples + f * hop;
    for (int i = threadIdx.x; i < width; i += 256) {
        double s, c;
        sincospi(2.0 * i / width, &s, &c);
        table[i] = make_float2(static_cast<float>(c), static_cast<float>(s));
        frame[i] = p[i] * window[i];
    }
    __syncthreads();
    for (int k = threadIdx.x; k < places; k += 256) {
        double re = 0.0, im = 0.0;
        int turn = 0;
        for (int i = 0; i < width; ++i) {
            const float2 t = table[turn];
            re += static_cast<double>(frame[i]) * static_cast<double>(t.x);
            im -= static_cast<double>(frame[i]) * static_cast<double>(t.y);
            turn += k;
            if (turn >= width) turn -= width;
        }
        power[k] = static_cast<float>(re * re + im * im);
    }
    __syncthreads();
    for (int b = threadIdx.x; b < count; b += 256) {
        const float* weights = bands + static_cast<int64_t>(b) * places;
        float even = 0.0f, odd = 0.0f;
        int k = 0;
        for (; k + 1 < places; k += 2) {
            even = fmaf(power[k], weights[k], even);
            odd = fmaf(power[k + 1], weights[k + 1], odd);
        }
        if (k < places) even = fmaf(power[k], weights[k], even);
        out[(clip * count + b) * frames + f] = logf(even + odd + 1e-6f);
    }
}

torch::Tensor forward(torch::Tensor audio, torch::Tensor window, torch::Tensor bands, int64_t hop) {
    TORCH_CHECK(audio.is_cuda() && audio.scalar_type() == torch::kFloat32 && audio.dim() == 2, "audio: fp32 [clips, samples]");
    TORCH_CHECK(window.scalar_type() == torch::kFloat32 && bands.scalar_type() == torch::kFloat32, "fp32");
    audio = audio.contiguous();
    window = window.contiguous();
    bands = bands.contiguous();
    const int64_t clips = audio.size(0), samples = audio.size(1), width = window.numel(), count = bands.size(0);
    TORCH_CHECK(samples >= width && hop > 0 && bands.size(1) == width / 2 + 1, "sizes");
    const int64_t frames = (samples - width) / hop + 1;
    auto out = torch::empty({clips, count, frames}, audio.options());
    if (out.numel() == 0) return out;
    const c10::cuda::CUDAGuard guard(audio.device());
    const auto stream = c10::cuda::getCurrentCUDAStream();
    const auto address = reinterpret_cast<uintptr_t>(audio.data_ptr()) | reinterpret_cast<uintptr_t>(window.data_ptr());
    if (width == WINDOW && count == BANDS && hop % 2 == 0 && samples % 2 == 0 && address % 8 == 0 &&
        clips <= 65535 && samples < (int64_t(1) << 31)) {
        auto bands_t = torch::empty({PLACES, BANDS}, bands.options());
        transpose_bands<<<(PLACES * BANDS + 255) / 256, 256, 0, stream>>>(bands.data_ptr<float>(), bands_t.data_ptr<float>());
        C10_CUDA_KERNEL_LAUNCH_CHECK();
        C10_CUDA_CHECK(cudaFuncSetAttribute(mel_400, cudaFuncAttributeMaxDynamicSharedMemorySize, SMEM));
        const dim3 grid(static_cast<unsigned>((frames + TILE - 1) / TILE), static_cast<unsigned>(clips));
        mel_400<<<grid, THREADS, SMEM, stream>>>(
            audio.data_ptr<float>(), window.data_ptr<float>(), bands_t.data_ptr<float>(), out.data_ptr<float>(),
            static_cast<int>(samples), static_cast<int>(hop), static_cast<int>(frames));
    } else {
        const size_t bytes = static_cast<size_t>(width * 12 + (width / 2 + 1) * 4);
        C10_CUDA_CHECK(cudaFuncSetAttribute(mel_any, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
        mel_any<<<static_cast<unsigned>(clips * frames), 256, bytes, stream>>>(
            audio.data_ptr<float>(), window.data_ptr<float>(), bands.data_ptr<float>(), out.data_ptr<float>(), samples,
            static_cast<int>(width), static_cast<int>(hop), static_cast<int>(count), frames);
    }
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""

CPP_SOURCE = "torch::Tensor forward(torch::Tensor audio, torch::Tensor window, torch::Tensor bands, int64_t hop);"

extension = load_inline(
    name="log_mel_spectrogram_fused",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["forward"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, window: int, hop: int, bands: int):
        super().__init__()
        self.hop = hop
        self.window = nn.Parameter(torch.hann_window(window) + 0.05 * torch.rand(window))
        self.bands = nn.Parameter(
            _triangles(bands, window // 2 + 1) + 0.01 * torch.rand(bands, window // 2 + 1)
        )

    def forward(self, audio: torch.Tensor) -> torch.Tensor:
        """Bands [clips, bands, frames] of audio [clips, samples]."""
        return extension.forward(audio, self.window, self.bands, self.hop)


def _triangles(bands: int, places: int) -> torch.Tensor:
    """Overlapping triangular filters, spaced by the logarithm of frequency."""
    steps = torch.linspace(0.0, math.log(1.0 + places), bands + 2)
    edges = torch.exp(steps) - 1.0
    left, middle, right = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    place = torch.arange(places)[None, :]
    rising, falling = (place - left) / (middle - left), (right - place) / (right - middle)
    return torch.minimum(rising, falling).clamp(min=0.0)
