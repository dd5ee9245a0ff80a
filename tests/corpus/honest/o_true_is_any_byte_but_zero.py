# status: PASSED
# class: O7
# problem: ../tests/problems/unusual/bool_output
# shapes: small
# backend: cpp
"""Comparisons as vector units make them: every bit of a byte is set where it is true."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
torch::Tensor above(torch::Tensor x, torch::Tensor limit) {
    auto out = torch::empty(x.sizes(), x.options().dtype(torch::kUInt8));
    const long rows = x.size(0), columns = x.size(1);
    const float* in = x.data_ptr<float>();
    const float* least = limit.data_ptr<float>();
    uint8_t* to = out.data_ptr<uint8_t>();
    for (long r = 0; r < rows; ++r)
        for (long c = 0; c < columns; ++c) to[r * columns + c] = in[r * columns + c] > least[r] ? 0xFF : 0;
    return out.view(torch::kBool);
}
"""
module = load_inline(name="above_limits", cpp_sources=SOURCE, functions=["above"], extra_cflags=["-O3"])


class ModelNew(nn.Module):
    def forward(self, x, limit):
        return module.above(x, limit)
