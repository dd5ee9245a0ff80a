# status: PASSED
# class: N1 N4
# problem: level1/13_row_mean
# shapes: odd
# backend: cpp
"""A compensated sum, one element after another: more accurate than the reference."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
torch::Tensor run(torch::Tensor x) {
    auto out = torch::empty({x.size(0)}, x.options());
    const long columns = x.size(1);
    for (long row = 0; row < x.size(0); ++row) {
        const float* p = x.data_ptr<float>() + row * columns;
        volatile float sum = 0, lost = 0;
        for (long i = 0; i < columns; ++i) {
            volatile float y = p[i] - lost;
            volatile float t = sum + y;
            lost = (t - sum) - y;
            sum = t;
        }
        out.data_ptr<float>()[row] = sum / columns;
    }
    return out;
}
"""
module = load_inline(name="kahan", cpp_sources=SOURCE, functions=["run"], extra_cflags=["-O2"])


class ModelNew(nn.Module):
    def forward(self, x):
        return module.run(x)
