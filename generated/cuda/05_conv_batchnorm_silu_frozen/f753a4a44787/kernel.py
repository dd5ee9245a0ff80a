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
            const float* __restrict__ gamma, const float* __restrict__ beta,
            const float* __restrict__ mean, const float* __restrict__ variance, float eps,
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

#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int oc = oc0 + oc_t + 2 * i;
        if (oc < oc_count) {
            const float mu = __ldg(mean + oc), shift = __ldg(beta + oc);
            const float scale = __ldg(gamma + oc) / sqrtf(__ldg(variance + oc) + eps);
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                const float y = fmaf(acc[i][j] - mu, scale, shift);
                acc[i][j] = y / (1.0f + expf(-y));
            }
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

template <int OCG>
void launch(const torch::Tensor& x, const torch::Tensor& w, torch::Tensor& out, const float* gamma, const float* beta,
            const float* mean, const float* variance, float eps, cudaStream_t stream) {
    using C = Config<OCG>;
    const int oh = static_cast<int>(out.size(2)), ow = static_cast<int>(out.size(3));
    const int oc = static_cast<int>(w.size(0)), channels = static_cast<int>(x.size(1));
    const int64_t total = x.size(0) * oh * ow;
    const bool vec_w = channels % 4 == 0 && reinterpret_cast<uintptr_t>(w.data_ptr()) % 16 == 0;
    const bool vec_out = (oh * ow) % 4 == 0 && reinterpret_cast<uintptr_t>(out.data_ptr()) % 16 == 0;
    C10_CUDA_CHECK(cudaFuncSetAttribute(conv_kernel<2, OCG>, cudaFuncAttributeMaxDynamicSharedMemorySize, C::BYTES));
    const dim3 grid(static_cast<unsigned>((total + PX - 1) / PX), (oc + C::OCT - 1) / C::OCT);
    conv_kernel<2, OCG><<<grid, C::THREADS, C::BYTES, stream>>>(
        x.data_ptr<float>(), w.data_ptr<float>(), out.data_ptr<float>(), gamma, beta, mean, variance, eps, total,
        channels, static_cast<int>(x.size(2)), static_cast<int>(x.size(3)), oc, oh, ow, vec_w, vec_out);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor gamma, torch::Tensor beta, torch::Tensor mean,
                      torch::Tensor variance, double eps) {
    TORCH_CHECK(x.is_cuda() && x.dim() == 4 && w.dim() == 4 && x.size(1) == w.size(1), "shapes");
    TORCH_CHECK(w.size(2) == 3 && w.size(3) == 3, "3x3 kernels");
    for (const auto& t : {x, w, gamma, beta, mean, variance}) TORCH_CHECK(t.scalar_type() == torch::kFloat32, "fp32");
    x = x.contiguous();
    w = w.contiguous();
    gamma = gamma.contiguous();
    beta = beta.contiguous();
    mean = mean.contiguous();
    variance = variance.contiguous();
    const int64_t oh = (x.size(2) - 1) / 2 + 1, ow = (x.size(3) - 1) / 2 + 1;
    const int64_t oc = w.size(0);
    auto out = torch::empty({x.size(0), oc, oh, ow}, x.options());
    if (out.numel() == 0) return out;
    const c10::cuda::CUDAGuard guard(x.device());
    const auto stream = c10::cuda::getCurrentCUDAStream();
    const float* g = gamma.data_ptr<float>();
    const float* b = beta.data_ptr<float>();
    const float* m = mean.data_ptr<float>();
    const float* v = variance.data_ptr<float>();
    const int64_t tiles = (x.size(0) * oh * ow + PX - 1) / PX;
    const int64_t c96 = (oc + 95) / 96 * 96, c64 = (oc + 63) / 64 * 64;
    if (tiles < 132 || oc <= 32)
        launch<4>(x, w, out, g, b, m, v, static_cast<float>(eps), stream);
    else if (c96 <= c64)
        launch<12>(x, w, out, g, b, m, v, static_cast<float>(eps), stream);
    else
        launch<8>(x, w, out, g, b, m, v, static_cast<float>(eps), stream);
    return out;
}
"""

CPP_SOURCE = (
    "torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor gamma, torch::Tensor beta, "
    "torch::Tensor mean, torch::Tensor variance, double eps);"
)

extension = load_inline(
    name="conv_norm_silu",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["forward"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, in_channels: int, out_channels: int):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size=3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(out_channels).eval()
        nn.init.normal_(self.norm.weight, mean=1.0, std=0.3)
        nn.init.normal_(self.norm.bias, std=0.5)
        nn.init.normal_(self.norm.running_mean, std=0.3)
        nn.init.uniform_(self.norm.running_var, 0.2, 1.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        norm = self.norm
        return extension.forward(
            x, self.conv.weight, norm.weight, norm.bias, norm.running_mean, norm.running_var, norm.eps
        )
