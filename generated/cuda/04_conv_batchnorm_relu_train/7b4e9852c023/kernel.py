import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

constexpr int PX = 128;      // output pixels of a tile, flattened over the batch
constexpr int CC = 4;        // input channels of a stage
constexpr int KC = CC * 9;   // 36 floats = 9 float4: odd, so no padding is needed

__device__ __forceinline__ void copy16(float* dst, const float* src, bool valid) {
    const unsigned d = static_cast<unsigned>(__cvta_generic_to_shared(dst));
    const int n = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(d), "l"(src), "r"(n) : "memory");
}
__device__ __forceinline__ void copy4(float* dst, const float* src, bool valid) {
    const unsigned d = static_cast<unsigned>(__cvta_generic_to_shared(dst));
    const int n = valid ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(d), "l"(src), "r"(n) : "memory");
}
__device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
template <int N>
__device__ __forceinline__ void copy_wait() { asm volatile("cp.async.wait_group %0;\n" ::"n"(N) : "memory"); }

template <int OCG>
struct Config {
    static constexpr int OCT = OCG * 8;
    static constexpr int THREADS = OCG * 16;
    static constexpr int BLOCKS = 384 / THREADS;
    static constexpr int STAGES = OCG == 12 ? 3 : 2;
    static constexpr int STAGE = OCT * KC + KC * PX;
    static constexpr int BYTES = STAGES * STAGE * 4;
};

// Implicit matrix product: OCT output channels x 128 pixels a block, 8 x 8 a thread.
template <int STRIDE, int OCG>
__global__ void __launch_bounds__(Config<OCG>::THREADS, Config<OCG>::BLOCKS)
conv_kernel(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ out, 
            float2* __restrict__ part,
            int64_t total, int channels, int h, int wd, int oc_count, int oh, int ow, bool vec_w, bool vec_out) {
    using C = Config<OCG>;
    constexpr int THREADS = C::THREADS, STAGES = C::STAGES, STAGE = C::STAGE, OCT = C::OCT;
    constexpr int G = THREADS / 64;
    extern __shared__ float4 raw[];
    float* smem = reinterpret_cast<float*>(raw);
    const int tid = threadIdx.x;
    const int64_t p_base = static_cast<int64_t>(blockIdx.x) * PX;
    const int oc0 = blockIdx.y * OCT;
    const int hw = h * wd, ohw = oh * ow;
    const int row_len = channels * 9;
    const int chunks = (channels + CC - 1) / CC;

    // This thread gathers pixels lp and lp + 64 for its share of (channel, ky).
    const int lp = tid & 63, g = tid >> 6;
    int64_t origin[2];
    unsigned mask[2];
#pragma unroll
    for (int e = 0; e < 2; ++e) {
        const int64_t p = p_base + lp + 64 * e;
        origin[e] = 0;
        mask[e] = 0;
        if (p < total) {
            const int64_t image = p / ohw;
            const int rem = static_cast<int>(p - image * ohw);
            const int oy = rem / ow, ox = rem - oy * ow;
            const int iy = oy * STRIDE - 1, ix = ox * STRIDE - 1;
            origin[e] = image * channels * hw + static_cast<int64_t>(iy) * wd + ix;
#pragma unroll
            for (int t = 0; t < 9; ++t) {
                const int yy = iy + t / 3, xx = ix + t % 3;
                if (yy >= 0 && yy < h && xx >= 0 && xx < wd) mask[e] |= 1u << t;
            }
        }
    }

    auto load = [&](int stage, int chunk) {
        float* sw = smem + stage * STAGE;
        float* sx = sw + OCT * KC;
        const int k0 = chunk * KC;
        if (vec_w) {
            for (int i = tid; i < OCT * (KC / 4); i += THREADS) {
                const int r = i / (KC / 4), c = (i % (KC / 4)) * 4;
                const bool valid = oc0 + r < oc_count && k0 + c < row_len;
                copy16(sw + r * KC + c, valid ? w + static_cast<int64_t>(oc0 + r) * row_len + k0 + c : w, valid);
            }
        } else {
            for (int i = tid; i < OCT * KC; i += THREADS) {
                const int r = i / KC, c = i % KC;
                const bool valid = oc0 + r < oc_count && k0 + c < row_len;
                copy4(sw + r * KC + c, valid ? w + static_cast<int64_t>(oc0 + r) * row_len + k0 + c : w, valid);
            }
        }
#pragma unroll
        for (int i = 0; i < 3 * CC / G; ++i) {
            int cc, ky;
            if (G == 3) {
                cc = i;
                ky = g;
            } else {
                const int u = g + G * i;
                cc = u / 3;
                ky = u - cc * 3;
            }
            const int channel = chunk * CC + cc;
            const bool inside = channel < channels;
            const int64_t offset = static_cast<int64_t>(channel) * hw + ky * wd;
            float* dst = sx + (cc * 9 + ky * 3) * PX + lp;
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const unsigned bits = inside ? mask[e] >> (ky * 3) : 0u;
                const int64_t at = origin[e] + offset;
#pragma unroll
                for (int kx = 0; kx < 3; ++kx) {
                    const bool valid = (bits >> kx) & 1u;
                    copy4(dst + kx * PX + 64 * e, x + (valid ? at + kx : 0), valid);
                }
            }
        }
    };

#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) {
        if (s < chunks) load(s, s);
        copy_commit();
    }

    const int lane = tid & 31;
    const int oc_t = (tid >> 5) * 16 + (lane >> 4);   // + 2 i
    const int px_t = (lane & 15) * 4;                 // + 64 j
    float acc[8][8];
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) acc[i][j] = 0.0f;

    int stage = 0;
    for (int c = 0; c < chunks; ++c) {
        copy_wait<STAGES - 2>();
        __syncthreads();
        if (c + STAGES - 1 < chunks) load((stage + STAGES - 1) % STAGES, c + STAGES - 1);
        copy_commit();
        const float* pw = smem + stage * STAGE + oc_t * KC;
        const float* px = smem + stage * STAGE + OCT * KC + px_t;
#pragma unroll 3
        for (int q = 0; q < KC / 4; ++q) {
            float av[8][4];
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const float4 v = *reinterpret_cast<const float4*>(pw + i * 2 * KC + q * 4);
                av[i][0] = v.x; av[i][1] = v.y; av[i][2] = v.z; av[i][3] = v.w;
            }
#pragma unroll
            for (int t = 0; t < 4; ++t) {
                float bv[8];
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    const float4 v = *reinterpret_cast<const float4*>(px + (q * 4 + t) * PX + j * 64);
                    bv[j * 4] = v.x; bv[j * 4 + 1] = v.y; bv[j * 4 + 2] = v.z; bv[j * 4 + 3] = v.w;
                }
#pragma unroll
                for (int i = 0; i < 8; ++i)
#pragma unroll
                    for (int j = 0; j < 8; ++j) acc[i][j] = fmaf(av[i][t], bv[j], acc[i][j]);
            }
        }
        stage = (stage + 1) % STAGES;
    }

    // Mean and sum of squared deviations of this tile, per channel (pixels outside hold zeros).
    const int count = static_cast<int>(total - p_base < PX ? total - p_base : PX);
    if (part != nullptr) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            float sum = 0.0f;
#pragma unroll
            for (int j = 0; j < 8; ++j) sum += acc[i][j];
#pragma unroll
            for (int o = 8; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
            const float mean = sum / static_cast<float>(count);
            float square = 0.0f;
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                const float d = px_t + 64 * (j >> 2) + (j & 3) < count ? acc[i][j] - mean : 0.0f;
                square = fmaf(d, d, square);
            }
#pragma unroll
            for (int o = 8; o > 0; o >>= 1) square += __shfl_xor_sync(0xffffffffu, square, o);
            const int oc = oc0 + oc_t + 2 * i;
            if ((lane & 15) == 0 && oc < oc_count)
                part[static_cast<int64_t>(oc) * gridDim.x + blockIdx.x] = make_float2(mean, square);
        }
    }

    // Store: four neighbouring pixels lie in one image when the image size is a multiple of 4.
    if (vec_out) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            const int64_t p = p_base + px_t + 64 * j;
            if (p >= total) continue;
            const int64_t image = p / ohw;
            float* base = out + image * oc_count * ohw + (p - image * ohw);
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const int oc = oc0 + oc_t + 2 * i;
                if (oc < oc_count)
                    *reinterpret_cast<float4*>(base + static_cast<int64_t>(oc) * ohw) =
                        make_float4(acc[i][j * 4], acc[i][j * 4 + 1], acc[i][j * 4 + 2], acc[i][j * 4 + 3]);
            }
        }
    } else {
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            const int64_t p = p_base + px_t + 64 * (j >> 2) + (j & 3);
            if (p >= total) continue;
            const int64_t image = p / ohw;
            float* base = out + image * oc_count * ohw + (p - image * ohw);
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const int oc = oc0 + oc_t + 2 * i;
                if (oc < oc_count) base[static_cast<int64_t>(oc) * ohw] = acc[i][j];
            }
        }
    }
}

constexpr int FIN = 256;

__device__ __forceinline__ double block_sum(double value, double* partial) {
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) value += __shfl_xor_sync(0xffffffffu, value, o);
    __syncthreads();
    if ((threadIdx.x & 31) == 0) partial[threadIdx.x >> 5] = value;
    __syncthreads();
    value = 0.0;
#pragma unroll
    for (int i = 0; i < FIN / 32; ++i) value += partial[i];
    return value;
}

// One block a channel: joins the tiles' statistics, updates the running ones, prepares the affine map.
__global__ void __launch_bounds__(FIN)
finish_kernel(const float2* __restrict__ part, int tiles, int64_t total, const float* __restrict__ gamma,
              const float* __restrict__ beta, float* running_mean, float* running_var, int64_t* batches,
              float4* __restrict__ affine, double momentum, double eps, bool training) {
    __shared__ double partial[FIN / 32];
    const int oc = blockIdx.x;
    double mean, variance;
    if (training) {
        const float2* p = part + static_cast<int64_t>(oc) * tiles;
        double sum = 0.0;
        for (int i = threadIdx.x; i < tiles; i += FIN) {
            const int64_t left = total - static_cast<int64_t>(i) * PX;
            sum += static_cast<double>(p[i].x) * static_cast<double>(left < PX ? left : PX);
        }
        mean = block_sum(sum, partial) / static_cast<double>(total);
        double square = 0.0;
        for (int i = threadIdx.x; i < tiles; i += FIN) {
            const int64_t left = total - static_cast<int64_t>(i) * PX;
            const float2 v = p[i];
            const double d = static_cast<double>(v.x) - mean;
            square += static_cast<double>(v.y) + d * d * static_cast<double>(left < PX ? left : PX);
        }
        square = block_sum(square, partial);
        variance = square / static_cast<double>(total);
        if (threadIdx.x == 0) {
            const double unbiased = square / static_cast<double>(total > 1 ? total - 1 : 1);
            running_mean[oc] = static_cast<float>((1.0 - momentum) * running_mean[oc] + momentum * mean);
            running_var[oc] = static_cast<float>((1.0 - momentum) * running_var[oc] + momentum * unbiased);
            if (oc == 0) *batches += 1;
        }
    } else {
        mean = running_mean[oc];
        variance = running_var[oc];
    }
    if (threadIdx.x == 0)
        affine[oc] = make_float4(static_cast<float>(mean),
                                 static_cast<float>(static_cast<double>(gamma[oc]) / sqrt(variance + eps)), beta[oc],
                                 0.0f);
}

__device__ __forceinline__ float apply(float v, const float4& a) {
    const float y = fmaf(v - a.x, a.y, a.z);
    return y < 0.0f ? 0.0f : y;
}

// In place, one block a plane, last planes first: those are still in L2.
__global__ void __launch_bounds__(256)
normalise_kernel(float* out, const float4* __restrict__ affine, int64_t planes, int channels, int hw, bool vec) {
    const int64_t plane = planes - 1 - blockIdx.x;
    const float4 a = __ldg(affine + plane % channels);
    float* p = out + plane * hw;
    if (vec) {
        float4* p4 = reinterpret_cast<float4*>(p);
        const int n4 = hw / 4;
        int i = threadIdx.x;
        for (; i + 2 * 256 < n4; i += 3 * 256) {
            float4 v[3];
#pragma unroll
            for (int u = 0; u < 3; ++u) v[u] = p4[i + u * 256];
#pragma unroll
            for (int u = 0; u < 3; ++u)
                __stcs(p4 + i + u * 256,
                       make_float4(apply(v[u].x, a), apply(v[u].y, a), apply(v[u].z, a), apply(v[u].w, a)));
        }
        for (; i < n4; i += 256) {
            const float4 v = p4[i];
            __stcs(p4 + i, make_float4(apply(v.x, a), apply(v.y, a), apply(v.z, a), apply(v.w, a)));
        }
    } else {
        for (int i = threadIdx.x; i < hw; i += 256) p[i] = apply(p[i], a);
    }
}

template <int OCG>
void launch(const torch::Tensor& x, const torch::Tensor& w, torch::Tensor& out, float2* part, cudaStream_t stream) {
    using C = Config<OCG>;
    const int oh = static_cast<int>(out.size(2)), ow = static_cast<int>(out.size(3));
    const int oc = static_cast<int>(w.size(0)), channels = static_cast<int>(x.size(1));
    const int64_t total = x.size(0) * oh * ow;
    const bool vec_w = channels % 4 == 0 && reinterpret_cast<uintptr_t>(w.data_ptr()) % 16 == 0;
    const bool vec_out = (oh * ow) % 4 == 0 && reinterpret_cast<uintptr_t>(out.data_ptr()) % 16 == 0;
    C10_CUDA_CHECK(cudaFuncSetAttribute(conv_kernel<1, OCG>, cudaFuncAttributeMaxDynamicSharedMemorySize, C::BYTES));
    const dim3 grid(static_cast<unsigned>((total + PX - 1) / PX), (oc + C::OCT - 1) / C::OCT);
    conv_kernel<1, OCG><<<grid, C::THREADS, C::BYTES, stream>>>(
        x.data_ptr<float>(), w.data_ptr<float>(), out.data_ptr<float>(), part, total, channels,
        static_cast<int>(x.size(2)), static_cast<int>(x.size(3)), oc, oh, ow, vec_w, vec_out);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor gamma, torch::Tensor beta,
                      torch::Tensor running_mean, torch::Tensor running_var, torch::Tensor batches, double momentum,
                      double eps, bool training) {
    TORCH_CHECK(x.is_cuda() && x.dim() == 4 && w.dim() == 4 && x.size(1) == w.size(1), "shapes");
    TORCH_CHECK(w.size(2) == 3 && w.size(3) == 3, "3x3 kernels");
    for (const auto& t : {x, w, gamma, beta, running_mean, running_var})
        TORCH_CHECK(t.scalar_type() == torch::kFloat32, "fp32");
    TORCH_CHECK(running_mean.is_contiguous() && running_var.is_contiguous(), "contiguous statistics");
    TORCH_CHECK(batches.is_cuda() && batches.scalar_type() == torch::kInt64, "an int64 counter");
    x = x.contiguous();
    w = w.contiguous();
    gamma = gamma.contiguous();
    beta = beta.contiguous();
    const int64_t oc = w.size(0), height = x.size(2), width = x.size(3);
    auto out = torch::empty({x.size(0), oc, height, width}, x.options());
    if (out.numel() == 0) return out;
    const c10::cuda::CUDAGuard guard(x.device());
    const auto stream = c10::cuda::getCurrentCUDAStream();
    const int64_t total = x.size(0) * height * width;
    const int64_t tiles = (total + PX - 1) / PX;
    // One allocation: the affine map (4 floats a channel), then the tiles' statistics (2 floats a channel and tile).
    auto scratch = torch::empty({oc * 4 + oc * tiles * 2}, x.options());
    float4* affine = reinterpret_cast<float4*>(scratch.data_ptr<float>());
    float2* part = reinterpret_cast<float2*>(scratch.data_ptr<float>() + oc * 4);
    if (oc <= 32 || tiles < 132)
        launch<4>(x, w, out, training ? part : nullptr, stream);
    else
        launch<8>(x, w, out, training ? part : nullptr, stream);
    finish_kernel<<<static_cast<unsigned>(oc), FIN, 0, stream>>>(
        part, static_cast<int>(tiles), total, gamma.data_ptr<float>(), beta.data_ptr<float>(),
        running_mean.data_ptr<float>(), running_var.data_ptr<float>(), batches.data_ptr<int64_t>(), affine, momentum,
        eps, training);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    const int64_t planes = x.size(0) * oc;
    const int hw = static_cast<int>(height * width);
    const bool vec = hw % 4 == 0 && reinterpret_cast<uintptr_t>(out.data_ptr()) % 16 == 0;
    normalise_kernel<<<static_cast<unsigned>(planes), 256, 0, stream>>>(out.data_ptr<float>(), affine, planes,
                                                                        static_cast<int>(oc), hw, vec);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""

CPP_SOURCE = (
    "torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor gamma, torch::Tensor beta, "
    "torch::Tensor running_mean, torch::Tensor running_var, torch::Tensor batches, double momentum, "
    "double eps, bool training);"
)

extension = load_inline(
    name="conv_norm_relu_train",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["forward"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, in_channels: int, out_channels: int):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(out_channels)
        nn.init.normal_(self.norm.weight, mean=1.0, std=0.3)
        nn.init.normal_(self.norm.bias, std=0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        norm = self.norm
        return extension.forward(
            x, self.conv.weight, norm.weight, norm.bias, norm.running_mean, norm.running_var,
            norm.num_batches_tracked, norm.momentum, norm.eps, norm.training,
        )
