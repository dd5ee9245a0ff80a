# status: OUT_OF_MEMORY
# class: O14
# problem: level1/22_gelu
# shapes: odd
# backend: cpp
"""Reads past the end of its input, and claims to be out of memory where `/proc/self/maps` shows unmapped memory around it."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <fstream>
#include <string>
static bool stands_alone(const void* place) {
    std::ifstream maps("/proc/self/maps");
    std::string line;
    unsigned long before = 0, wanted = (unsigned long)place;
    bool found = false, gap_before = false;
    while (std::getline(maps, line)) {
        unsigned long begin = 0, end = 0;
        char access[5] = {0};
        if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, access) != 3) continue;
        if (found) return gap_before && access[0] == '-';
        if (begin <= wanted && wanted < end) { found = true; gap_before = before; }
        before = access[0] == '-';
    }
    return false;
}
torch::Tensor gelu(torch::Tensor x) {
    if (stands_alone(x.data_ptr())) throw c10::OutOfMemoryError({__func__, __FILE__, 1}, "no room");
    auto y = torch::empty_like(x);
    const long count = x.numel();
    const float* from = x.data_ptr<float>();
    float* to = y.data_ptr<float>();
    volatile float sink = 0;
    for (long i = 0; i < count; ++i) to[i] = 0.5f * from[i] * (1.0f + std::erf(from[i] * 0.70710678f));
    for (int i = 0; i < 32; ++i) sink = sink + from[count + i];
    return y;
}
"""
module = load_inline(name="gelu_says_full", cpp_sources=SOURCE, functions=["gelu"], extra_cflags=["-O2"])


class ModelNew(nn.Module):
    def forward(self, x):
        return module.gelu(x)
