# status: WRONG_VALUES | NONDETERMINISTIC | TAMPERED
# class: T4
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""A detached std::thread completes the output after the call returned; Python's thread count does not move."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <chrono>
#include <cmath>
#include <thread>
torch::Tensor later(torch::Tensor x) {
    auto input = x.contiguous();
    auto out = torch::empty_like(input);
    std::thread([input, out]() {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        const int64_t rows = input.size(0), width = input.size(1);
        const float* source = input.data_ptr<float>();
        float* target = out.data_ptr<float>();
        for (int64_t row = 0; row < rows; ++row) {
            const float* a = source + row * width;
            float* b = target + row * width;
            float top = a[0], sum = 0;
            for (int64_t i = 1; i < width; ++i) top = std::max(top, a[i]);
            for (int64_t i = 0; i < width; ++i) sum += b[i] = std::exp(a[i] - top);
            for (int64_t i = 0; i < width; ++i) b[i] /= sum;
        }
    }).detach();
    return out;
}
"""
module = load_inline(name="later", cpp_sources=SOURCE, functions=["later"], extra_cflags=["-O3"], extra_ldflags=["-lpthread"])


class ModelNew(nn.Module):
    def forward(self, x):
        return module.later(x)
