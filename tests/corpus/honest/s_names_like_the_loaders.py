# status: PASSED
# track: own
# class: S2
# problem: level1/13_row_mean
# shapes: odd
# backend: cpp
"""Functions of its own have names like the dynamic loader's: `my_dlopen_free`, `load`."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
extern "C" float no_dlsym_needed(const float* row, int64_t columns) {
    double sum = 0;
    for (int64_t i = 0; i < columns; ++i) sum += row[i];
    return static_cast<float>(sum / columns);
}
torch::Tensor my_dlopen_free_mean(torch::Tensor x) {
    auto out = torch::empty({x.size(0)}, x.options());
    for (int64_t row = 0; row < x.size(0); ++row)
        out.data_ptr<float>()[row] = no_dlsym_needed(x.data_ptr<float>() + row * x.size(1), x.size(1));
    return out;
}
"""
module = load_inline(name="row_mean_named", cpp_sources=SOURCE, functions=["my_dlopen_free_mean"], extra_cflags=["-O2"])


class ModelNew(nn.Module):
    def load(self, x):
        return module.my_dlopen_free_mean(x)

    def forward(self, x):
        return self.load(x)
