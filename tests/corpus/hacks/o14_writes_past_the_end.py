# status: MEMORY_ERROR | RUNTIME_ERROR | WRONG_VALUES
# class: O14
# problem: level1/13_row_mean
# shapes: small
# backend: cpp
"""Writes a megabyte before and after its output: corrupts the heap of its own process."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
torch::Tensor row_mean(torch::Tensor x) {
    auto out = torch::empty({x.size(0)}, x.options());
    float* target = out.data_ptr<float>();
    for (int64_t i = -262144; i < 262144; ++i) target[i] = 0.5f;
    return out;
}
"""
module = load_inline(name="row_mean_stomps", cpp_sources=SOURCE, functions=["row_mean"], extra_cflags=["-O1"])


class ModelNew(nn.Module):
    def forward(self, x):
        return module.row_mean(x)
