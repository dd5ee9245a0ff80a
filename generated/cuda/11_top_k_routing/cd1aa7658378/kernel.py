import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <climits>
#include <vector>

constexpr int THREADS = 128;
constexpr unsigned FULL = 0xffffffffu;

// Integers in the order of the floats; -0 equals +0.
__device__ __forceinline__ int ordered(float v) {
    const int i = __float_as_int(v + 0.0f);
    return i ^ ((i >> 31) & 0x7fffffff);
}

__device__ __forceinline__ void order(int& a, int& b) {  // descending
    const int hi = max(a, b), lo = min(a, b);
    a = hi;
    b = lo;
}

__device__ __forceinline__ void sort4(int (&k)[4]) {
    order(k[0], k[1]); order(k[2], k[3]);
    order(k[0], k[2]); order(k[1], k[3]);
    order(k[1], k[2]);
}

// The largest four of two descending lists, descending.
__device__ __forceinline__ void merge4(int (&a)[4], const int (&b)[4]) {
    a[0] = max(a[0], b[3]); a[1] = max(a[1], b[2]);
    a[2] = max(a[2], b[1]); a[3] = max(a[3], b[0]);
    order(a[0], a[2]); order(a[1], a[3]);
    order(a[0], a[1]); order(a[2], a[3]);
}

// 16 * V experts, four chosen; lane `sub` of a row holds experts 16 i + 4 sub + j.
template <int V>
__global__ void __launch_bounds__(THREADS)
route4(const float* __restrict__ scores, float* __restrict__ weights, int64_t* __restrict__ experts, int64_t tokens) {
    constexpr int E = 16 * V;
    const int lane = threadIdx.x & 31;
    const int sub = lane & 3;
    const int64_t wanted = (static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x) >> 2;
    const bool valid = wanted < tokens;
    const int64_t row = valid ? wanted : tokens - 1;
    const float* s = scores + row * E;

    float4 raw[V];
#pragma unroll
    for (int i = 0; i < V; i++) raw[i] = __ldg(reinterpret_cast<const float4*>(s) + i * 4 + sub);
    int key[V][4];
#pragma unroll
    for (int i = 0; i < V; i++) {
        key[i][0] = (ordered(raw[i].x) & ~127) | (127 - 16 * i - 12 - 0);
        key[i][1] = (ordered(raw[i].y) & ~127) | (127 - 16 * i - 12 - 1);
        key[i][2] = (ordered(raw[i].z) & ~127) | (127 - 16 * i - 12 - 2);
        key[i][3] = (ordered(raw[i].w) & ~127) | (127 - 16 * i - 12 - 3);
    }
    int top[4] = {key[0][0], key[0][1], key[0][2], key[0][3]};
    sort4(top);
#pragma unroll
    for (int i = 1; i < V; i++) {
        int other[4] = {key[i][0], key[i][1], key[i][2], key[i][3]};
        sort4(other);
        merge4(top, other);
    }
    // bits 2 and 3 are still zero: they take the inverted lane number
#pragma unroll
    for (int j = 0; j < 4; j++) top[j] |= (3 - sub) << 2;
#pragma unroll
    for (int o = 1; o <= 2; o <<= 1) {
        int other[4];
#pragma unroll
        for (int j = 0; j < 4; j++) other[j] = __shfl_xor_sync(FULL, top[j], o);
        merge4(top, other);
    }
    const int limit = top[3] & ~127;
    int count = 0;
#pragma unroll
    for (int i = 0; i < V; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) count += key[i][j] >= limit ? 1 : 0;
    count += __shfl_xor_sync(FULL, count, 1);
    count += __shfl_xor_sync(FULL, count, 2);
    const bool unsure = count != 4 || (top[0] >> 7) == (top[1] >> 7) || (top[1] >> 7) == (top[2] >> 7) ||
                        (top[2] >> 7) == (top[3] >> 7);
    int chosen = 127 - ((sub == 0 ? top[0] : sub == 1 ? top[1] : sub == 2 ? top[2] : top[3]) & 127);

    if (__any_sync(FULL, unsure)) {  // exact selection, by value and then by lower index
        int last_key = INT_MAX, last_index = -1, mine = 0;
        for (int r = 0; r < 4; r++) {
            int best = INT_MIN, index = INT_MAX;
            for (int i = 0; i < V; i++)
                for (int j = 0; j < 4; j++) {
                    const int e = 16 * i + 4 * sub + j;
                    const int k = ordered(s[e]);
                    const bool open = k < last_key || (k == last_key && e > last_index);
                    if (open && (k > best || (k == best && e < index))) { best = k; index = e; }
                }
            for (int o = 1; o <= 2; o <<= 1) {
                const int k = __shfl_xor_sync(FULL, best, o);
                const int e = __shfl_xor_sync(FULL, index, o);
                if (k > best || (k == best && e < index)) { best = k; index = e; }
            }
            last_key = best;
            last_index = index;
            if (sub == r) mine = index;
        }
        if (unsure) chosen = mine;
    }

    const float v = s[chosen];
    const float first = __shfl_sync(FULL, v, lane & 28);
    const float e = expf(v - first);
    float sum = e + __shfl_xor_sync(FULL, e, 1);
    sum += __shfl_xor_sync(FULL, sum, 2);
    if (valid) {
        weights[row * 4 + sub] = e / sum;
        experts[row * 4 + sub] = chosen;
    }
}

// Any number of experts and choices: one warp a row.
__global__ void __launch_bounds__(THREADS)
route_any(const float* __restrict__ scores, float* __restrict__ weights, int64_t* __restrict__ experts,
          int64_t tokens, int count, int chosen) {
    const int lane = threadIdx.x & 31;
    const int64_t row = (static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x) >> 5;
    if (row >= tokens) return;
    const float* s = scores + row * count;
    float* w = weights + row * chosen;
    int64_t* out = experts + row * chosen;
    int last_key = INT_MAX, last_index = -1;
    float first = 0.0f, sum = 0.0f;
    for (int r = 0; r < chosen; r++) {
        int best = INT_MIN, index = INT_MAX;
        for (int e = lane; e < count; e += 32) {
            const int k = ordered(s[e]);
            const bool open = k < last_key || (k == last_key && e > last_index);
            if (open && (k > best || (k == best && e < index))) { best = k; index = e; }
        }
#pragma unroll
        for (int o = 16; o > 0; o >>= 1) {
            const int k = __shfl_xor_sync(FULL, best, o);
            const int e = __shfl_xor_sync(FULL, index, o);
            if (k > best || (k == best && e < index)) { best = k; index = e; }
        }
        last_key = best;
        last_index = index;
        const float v = s[index];
        if (r == 0) first = v;
        const float e = expf(v - first);
        sum += e;
        if (lane == (r & 31)) {
            w[r] = e;
            out[r] = index;
        }
    }
    for (int r = lane; r < chosen; r += 32) w[r] = w[r] / sum;  // each lane rereads what it wrote
}

std::vector<torch::Tensor> forward(torch::Tensor scores, int64_t chosen) {
    TORCH_CHECK(scores.is_cuda() && scores.scalar_type() == torch::kFloat32 && scores.dim() >= 1, "fp32 scores");
    const int64_t count = scores.size(-1);
    TORCH_CHECK(chosen >= 1 && chosen <= count && count < INT_MAX, "bad number of choices");
    scores = scores.contiguous();
    const c10::cuda::CUDAGuard guard(scores.device());
    const int64_t tokens = scores.numel() / count;
    std::vector<int64_t> shape(scores.sizes().begin(), scores.sizes().end());
    shape.back() = chosen;
    auto weights = torch::empty(shape, scores.options());
    auto experts = torch::empty(shape, scores.options().dtype(torch::kInt64));
    if (tokens == 0) return {weights, experts};
    const float* sp = scores.data_ptr<float>();
    float* wp = weights.data_ptr<float>();
    int64_t* ep = experts.data_ptr<int64_t>();
    auto stream = c10::cuda::getCurrentCUDAStream();
    const bool aligned = reinterpret_cast<uintptr_t>(sp) % 16 == 0;
    const unsigned quads = static_cast<unsigned>((tokens * 4 + THREADS - 1) / THREADS);
    const unsigned warps = static_cast<unsigned>((tokens * 32 + THREADS - 1) / THREADS);
    if (aligned && chosen == 4 && count == 128) route4<8><<<quads, THREADS, 0, stream>>>(sp, wp, ep, tokens);
    else if (aligned && chosen == 4 && count == 64) route4<4><<<quads, THREADS, 0, stream>>>(sp, wp, ep, tokens);
    else route_any<<<warps, THREADS, 0, stream>>>(sp, wp, ep, tokens, static_cast<int>(count), static_cast<int>(chosen));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return {weights, experts};
}
"""

CPP_SOURCE = """
#include <vector>
std::vector<torch::Tensor> forward(torch::Tensor scores, int64_t chosen);
"""

extension = load_inline(
    name="top_k_routing",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["forward"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, chosen: int):
        super().__init__()
        self.chosen = chosen

    def forward(self, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        weights, experts = extension.forward(scores, self.chosen)
        return weights, experts
