import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

constexpr int THREADS = 256;
constexpr int PIXELS = 48;
constexpr int DEPTH = 32;      // channels of a chunk
constexpr int WIDTH = 128;     // outputs of a block
constexpr int STRIDE = 50;     // floats between rows of samples
constexpr int TAPS = 9;
constexpr int W_FLOATS = DEPTH * WIDTH;
constexpr int C_FLOATS = DEPTH * STRIDE;
constexpr int BYTES = 2 * W_FLOATS * 4 + 2 * TAPS * PIXELS * 16 + 2 * C_FLOATS * 4;

// Blocks below `image_blocks` transpose a 32 x 32 piece of the image, the others lay out the weight.
__global__ void __launch_bounds__(256)
prepare(const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ xt, float* __restrict__ wt,
        int channels, int padded, int outputs, int outputs_padded, int area, int area_tiles, int image_blocks) {
    if (blockIdx.x < image_blocks) {
        __shared__ float piece[32][33];
        const int channel_tiles = padded / 32;
        int id = blockIdx.x;
        const int ct = id % channel_tiles;
        id /= channel_tiles;
        const int pt = id % area_tiles;
        const int64_t b = id / area_tiles;
        const int lx = threadIdx.x % 32, ly = threadIdx.x / 32;
#pragma unroll
        for (int r = 0; r < 32; r += 8) {
            const int c = ct * 32 + ly + r, p = pt * 32 + lx;
            piece[ly + r][lx] = c < channels && p < area ? x[(b * channels + c) * area + p] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int r = 0; r < 32; r += 8) {
            const int c = ct * 32 + lx, p = pt * 32 + ly + r;
            if (p < area) xt[(b * area + p) * padded + c] = piece[lx][ly + r];
        }
    } else {
        const int64_t id = static_cast<int64_t>(blockIdx.x - image_blocks) * 256 + threadIdx.x;
        const int64_t total = static_cast<int64_t>(TAPS) * padded * outputs_padded;
        if (id >= total) return;
        const int o = static_cast<int>(id % outputs_padded);
        const int row = static_cast<int>(id / outputs_padded);
        const int c = row % padded, t = row / padded;
        wt[id] = o < outputs && c < channels ? weight[(static_cast<int64_t>(o) * channels + c) * TAPS + t] : 0.0f;
    }
}

__device__ __forceinline__ void copy16(float* target, const float* source) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(target));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(address), "l"(source) : "memory");
}

__device__ __forceinline__ void fetch_weights(float* target, const float* source, int outputs_padded) {
#pragma unroll
    for (int r = 0; r < W_FLOATS / 4 / THREADS; ++r) {
        const int id = threadIdx.x + r * THREADS;
        const int k = id / (WIDTH / 4), q = id % (WIDTH / 4);
        copy16(target + k * WIDTH + q * 4, source + static_cast<int64_t>(k) * outputs_padded + q * 4);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
}

constexpr int EACH = PIXELS / (THREADS / 32);   // pixels of a warp: 6

__device__ __forceinline__ void request(float (&v)[EACH][4], const float* source, const int4* places, int warp) {
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        const int4 o = places[warp * EACH + i];
        v[i][0] = __ldg(source + o.x);
        v[i][1] = __ldg(source + o.y);
        v[i][2] = __ldg(source + o.z);
        v[i][3] = __ldg(source + o.w);
    }
}

__device__ __forceinline__ void combine(const float (&v)[EACH][4], float* target, const float4* shares, int warp,
                                        int lane) {
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        const float4 s = shares[warp * EACH + i];
        target[lane * STRIDE + warp * EACH + i] =
            fmaf(v[i][3], s.w, fmaf(v[i][2], s.z, fmaf(v[i][1], s.y, v[i][0] * s.x)));
    }
}

__global__ void __launch_bounds__(THREADS, 1)
deformable(const float* __restrict__ xt, const float* __restrict__ offsets, const float* __restrict__ masks,
           const float* __restrict__ wt, const float* __restrict__ bias, float* __restrict__ out, int padded,
           int outputs, int outputs_padded, int height, int width, int tiles) {
    extern __shared__ __align__(16) float memory[];
    float* weights = memory;
    float4* shares = reinterpret_cast<float4*>(memory + 2 * W_FLOATS);
    int4* places = reinterpret_cast<int4*>(shares + TAPS * PIXELS);
    float* samples = reinterpret_cast<float*>(places + TAPS * PIXELS);

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int area = height * width;
    const int64_t b = blockIdx.x / tiles;
    const int p0 = (blockIdx.x % tiles) * PIXELS;
    const int o0 = blockIdx.y * WIDTH;

    for (int e = threadIdx.x; e < TAPS * PIXELS; e += THREADS) {
        const int t = e / PIXELS, p = p0 + e % PIXELS;
        float4 share = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        int4 place = make_int4(0, 0, 0, 0);
        if (p < area) {
            const int64_t at = b * TAPS + t;
            const float down = static_cast<float>(p / width + t / 3 - 1) + offsets[2 * at * area + p];
            const float right = static_cast<float>(p % width + t % 3 - 1) + offsets[(2 * at + 1) * area + p];
            const float mask = 1.0f / (1.0f + expf(-masks[at * area + p]));
            if (down > -1.0f && down < static_cast<float>(height) && right > -1.0f && right < static_cast<float>(width)) {
                const float fy0 = floorf(down), fx0 = floorf(right);
                const float dy = down - fy0, dx = right - fx0;
                const int y0 = static_cast<int>(fy0), x0 = static_cast<int>(fx0);
                const bool top = y0 >= 0, bottom = y0 + 1 < height, left = x0 >= 0, end = x0 + 1 < width;
                const int row0 = (top ? y0 : 0) * width, row1 = (bottom ? y0 + 1 : 0) * width;
                const int col0 = left ? x0 : 0, col1 = end ? x0 + 1 : 0;
                share.x = top && left ? (1.0f - dy) * (1.0f - dx) * mask : 0.0f;
                share.y = top && end ? (1.0f - dy) * dx * mask : 0.0f;
                share.z = bottom && left ? dy * (1.0f - dx) * mask : 0.0f;
                share.w = bottom && end ? dy * dx * mask : 0.0f;
                place = make_int4((row0 + col0) * padded, (row0 + col1) * padded, (row1 + col0) * padded,
                                  (row1 + col1) * padded);
            }
        }
        shares[e] = share;
        places[e] = place;
    }

    const int blocks = padded / DEPTH;
    const int chunks = TAPS * blocks;
    const float* image = xt + b * area * padded + lane;
    const float* wsource = wt + o0;
    fetch_weights(weights, wsource, outputs_padded);
    __syncthreads();
    float v[EACH][4];
    request(v, image, places, warp);
    combine(v, samples, shares, warp, lane);
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();

    const int group = warp / 4, member = threadIdx.x % 128;
    const int tx = member % 8, ty = member / 8;
    float acc[8][6];
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 6; ++j) acc[i][j] = 0.0f;

    for (int chunk = 0; chunk < chunks; ++chunk) {
        const int current = chunk % 2;
        const int next = chunk + 1;
        const int tap = next / blocks, part = next % blocks;
        if (next < chunks) {
            fetch_weights(weights + (current ^ 1) * W_FLOATS,
                          wsource + (static_cast<int64_t>(tap) * padded + part * DEPTH) * outputs_padded,
                          outputs_padded);
            request(v, image + part * DEPTH, places + tap * PIXELS, warp);
        }
        const float* w = weights + current * W_FLOATS + group * (DEPTH / 2) * WIDTH + ty * 4;
        const float* c = samples + current * C_FLOATS + group * (DEPTH / 2) * STRIDE + tx * 2;
#pragma unroll
        for (int k = 0; k < DEPTH / 2; ++k) {
            const float4 w0 = *reinterpret_cast<const float4*>(w + k * WIDTH);
            const float4 w1 = *reinterpret_cast<const float4*>(w + k * WIDTH + 64);
            const float2 c0 = *reinterpret_cast<const float2*>(c + k * STRIDE);
            const float2 c1 = *reinterpret_cast<const float2*>(c + k * STRIDE + 16);
            const float2 c2 = *reinterpret_cast<const float2*>(c + k * STRIDE + 32);
            const float a[8] = {w0.x, w0.y, w0.z, w0.w, w1.x, w1.y, w1.z, w1.w};
            const float s[6] = {c0.x, c0.y, c1.x, c1.y, c2.x, c2.y};
#pragma unroll
            for (int i = 0; i < 8; ++i)
#pragma unroll
                for (int j = 0; j < 6; ++j) acc[i][j] = fmaf(a[i], s[j], acc[i][j]);
        }
        if (next < chunks) combine(v, samples + (current ^ 1) * C_FLOATS, shares + tap * PIXELS, warp, lane);
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        __syncthreads();
    }

    // The second group hands its sums to the first, through the memory of the weights.
    if (group == 1) {
#pragma unroll
        for (int i = 0; i < 8; ++i)
#pragma unroll
            for (int j = 0; j < 6; ++j) weights[(i * 6 + j) * 128 + member] = acc[i][j];
    }
    __syncthreads();
    if (group == 0) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int o = o0 + (i / 4) * 64 + ty * 4 + i % 4;
            if (o < outputs) {
                const float shift = bias[o];
                float* target = out + (b * outputs + o) * area;
#pragma unroll
                for (int j = 0; j < 6; ++j) {
                    const int p = p0 + (j / 2) * 16 + tx * 2 + j % 2;
                    if (p < area) target[p] = acc[i][j] + weights[(i * 6 + j) * 128 + member] + shift;
                }
            }
        }
    }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor offsets, torch::Tensor masks, torch::Tensor weight,
                      torch::Tensor bias) {
    TORCH_CHECK(x.is_cuda() && x.dim() == 4 && x.scalar_type() == torch::kFloat32
                && offsets.scalar_type() == torch::kFloat32 && masks.scalar_type() == torch::kFloat32
                && weight.scalar_type() == torch::kFloat32 && bias.scalar_type() == torch::kFloat32, "fp32");
    x = x.contiguous();
    offsets = offsets.contiguous();
    masks = masks.contiguous();
    weight = weight.contiguous();
    bias = bias.contiguous();
    const int64_t batch = x.size(0), channels = x.size(1), height = x.size(2), width = x.size(3);
    const int64_t outputs = weight.size(0), area = height * width;
    auto out = torch::empty({batch, outputs, height, width}, x.options());
    if (out.numel() == 0) return out;
    const int64_t padded = (channels + DEPTH - 1) / DEPTH * DEPTH;
    const int64_t outputs_padded = (outputs + WIDTH - 1) / WIDTH * WIDTH;
    auto xt = torch::empty({batch, area, padded}, x.options());
    auto wt = torch::empty({TAPS, padded, outputs_padded}, x.options());
    const c10::cuda::CUDAGuard guard(x.device());
    auto stream = c10::cuda::getCurrentCUDAStream();
    const int64_t area_tiles = (area + 31) / 32;
    const int64_t image_blocks = batch * area_tiles * (padded / 32);
    const int64_t weight_blocks = (TAPS * padded * outputs_padded + 255) / 256;
    prepare<<<static_cast<unsigned>(image_blocks + weight_blocks), 256, 0, stream>>>(
        x.data_ptr<float>(), weight.data_ptr<float>(), xt.data_ptr<float>(), wt.data_ptr<float>(),
        static_cast<int>(channels), static_cast<int>(padded), static_cast<int>(outputs),
        static_cast<int>(outputs_padded), static_cast<int>(area), static_cast<int>(area_tiles),
        static_cast<int>(image_blocks));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    const int64_t tiles = (area + PIXELS - 1) / PIXELS;
    C10_CUDA_CHECK(cudaFuncSetAttribute(deformable, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES));
    const dim3 grid(static_cast<unsigned>(batch * tiles), static_cast<unsigned>(outputs_padded / WIDTH));
    deformable<<<grid, THREADS, BYTES, stream>>>(
        xt.data_ptr<float>(), offsets.data_ptr<float>(), masks.data_ptr<float>(), wt.data_ptr<float>(),
        bias.data_ptr<float>(), out.data_ptr<float>(), static_cast<int>(padded), static_cast<int>(outputs),
        static_cast<int>(outputs_padded), static_cast<int>(height), static_cast<int>(width), static_cast<int>(tiles));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""

CPP_SOURCE = (
    "torch::Tensor forward(torch::Tensor x, torch::Tensor offsets, torch::Tensor masks, torch::Tensor weight,"
    " torch::Tensor bias);"
)

extension = load_inline(
    name="deformable_conv",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["forward"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, channels: int, outputs: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, channels * 9) / (9 * channels) ** 0.5)
        self.bias = nn.Parameter(torch.randn(outputs))

    def forward(self, x: torch.Tensor, offsets: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
        return extension.forward(x, offsets, masks, self.weight, self.bias)
