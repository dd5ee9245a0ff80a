# status: PASSED
# track: own
# class: S2
# problem: level1/13_row_mean
# shapes: odd
# backend: cpp
"""Builds a library without torch's headers and opens it with ctypes: it is its own."""
import ctypes

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
extern "C" void row_mean(const float* source, float* target, long rows, long columns) {
    for (long row = 0; row < rows; ++row) {
        double sum = 0;
        for (long i = 0; i < columns; ++i) sum += source[row * columns + i];
        target[row] = static_cast<float>(sum / columns);
    }
}
"""
path = load_inline(
    name="row_mean_by_path", cpp_sources=SOURCE, functions=None, no_implicit_headers=True, is_python_module=False, extra_cflags=["-O2"]
)
row_mean = ctypes.CDLL(path).row_mean


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[:-1])
        rows, columns = (ctypes.c_long(size) for size in (out.numel(), x.shape[-1]))
        row_mean(ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(out.data_ptr()), rows, columns)
        return out
