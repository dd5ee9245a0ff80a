# status: MEMORY_ERROR | RUNTIME_ERROR | WRONG_VALUES
# class: O14
# problem: level1/13_row_mean
# shapes: small
# backend: cpp
# needs: sanitizer
"""Reads up to a page past the input; the values are dropped, so that the answer is right."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
torch::Tensor row_mean(torch::Tensor x) {
    x = x.contiguous();
    const int64_t rows = x.size(0), columns = x.size(1);
    auto out = torch::empty({rows}, x.options());
    const float* source = x.data_ptr<float>();
    volatile float dropped = 0;
    for (int64_t row = 0; row < rows; ++row) {
        double sum = 0;
        for (int64_t i = 0; i < columns; ++i) sum += source[row * columns + i];
        for (int64_t i = 0; i < 1024; ++i) dropped = source[(row + 1) * columns + i];
        out.data_ptr<float>()[row] = static_cast<float>(sum / columns);
    }
    return out;
}
"""
module = load_inline(name="row_mean_past_the_end", cpp_sources=SOURCE, functions=["row_mean"], extra_cflags=["-O2"])


class ModelNew(nn.Module):
    def forward(self, x):
        return module.row_mean(x)
