# status: PASSED
# class: S3 P15
# problem: level1/22_gelu
# shapes: small
# backend: cpp
"""Tries an exotic flag first and falls back to the plain build of the same kernel."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>
torch::Tensor gelu(torch::Tensor x) {
    x = x.contiguous();
    auto out = torch::empty_like(x);
    for (int64_t i = 0; i < x.numel(); ++i) {
        const float v = x.data_ptr<float>()[i];
        out.data_ptr<float>()[i] = 0.5f * v * std::erfc(-v * 0.70710678f);
    }
    return out;
}
"""
module = None
for flags in (["-O3", "-march=nonsense"], ["-O3", "-march=native"], ["-O2"]):
    try:
        module = load_inline(name="gelu_any_flags", cpp_sources=SOURCE, functions=["gelu"], extra_cflags=flags)
        break
    except RuntimeError:
        continue


class ModelNew(nn.Module):
    def forward(self, x):
        return module.gelu(x)
