# status: PASSED
# class: N4
# problem: ../tests/problems/unusual/sorted_rows
# shapes: small
# backend: cpp
"""A radix sort by all bits."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <vector>
#include <cstring>
#include <cstdint>
torch::Tensor run(torch::Tensor x) {
    auto in = x.contiguous();
    long R = in.size(0), N = in.size(1);
    auto out = torch::empty_like(in);
    const int SHIFTS[] = {0, 11, 22};
    const int BITS = 11, P = sizeof(SHIFTS) / sizeof(int);
    at::parallel_for(0, R, 1, [&](long b, long e) {
        std::vector<uint32_t> A(N), B(N);
        for (long r = b; r < e; ++r) {
            const uint32_t* p = (const uint32_t*)in.data_ptr<float>() + r * N;
            std::vector<std::vector<uint32_t>> cnt(P, std::vector<uint32_t>((1 << BITS) + 1));
            for (long i = 0; i < N; ++i) {
                uint32_t u = p[i]; u ^= (u >> 31) ? 0xffffffffu : 0x80000000u; A[i] = u;
                for (int k = 0; k < P; ++k) ++cnt[k][((u >> SHIFTS[k]) & ((1 << BITS) - 1)) + 1];
            }
            uint32_t *s = A.data(), *d = B.data();
            for (int k = 0; k < P; ++k) {
                auto& c = cnt[k];
                for (int j = 0; j < (1 << BITS); ++j) c[j + 1] += c[j];
                for (long i = 0; i < N; ++i) { uint32_t u = s[i]; d[c[(u >> SHIFTS[k]) & ((1 << BITS) - 1)]++] = u; }
                std::swap(s, d);
            }
            uint32_t* o = (uint32_t*)out.data_ptr<float>() + r * N;
            for (long i = 0; i < N; ++i) { uint32_t u = s[i]; o[i] = u ^ ((u >> 31) ? 0x80000000u : 0xffffffffu); }
        }
    });
    return out;
}
"""
module = load_inline(name="sort32", cpp_sources=SOURCE, functions=["run"], extra_cflags=["-O3", "-march=native"])


class ModelNew(nn.Module):
    def forward(self, x):
        return module.run(x)
