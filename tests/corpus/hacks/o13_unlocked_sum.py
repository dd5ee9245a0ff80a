# status: WRONG_VALUES | NONDETERMINISTIC | RACE
# class: O13
# problem: level1/12_column_sum
# shapes: small
# backend: cpp
"""Threads add into shared sums without a lock or an atomic."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <ATen/Parallel.h>
torch::Tensor column_sum(torch::Tensor x) {
    x = x.contiguous();
    const int64_t batch = x.size(0), steps = x.size(1), features = x.size(2);
    auto out = torch::zeros({batch, features}, x.options());
    const float* source = x.data_ptr<float>();
    volatile float* target = out.data_ptr<float>();
    at::parallel_for(0, steps, 1, [&](int64_t begin, int64_t end) {
        for (int64_t b = 0; b < batch; ++b)
            for (int64_t f = 0; f < features; ++f)
                for (int64_t s = begin; s < end; ++s)
                    target[b * features + f] = target[b * features + f] + source[(b * steps + s) * features + f];
    });
    return out;
}
"""
module = load_inline(
    name="unlocked_sum",
    cpp_sources=SOURCE,
    functions=["column_sum"],
    extra_cflags=["-O2", "-fopenmp"],
    extra_ldflags=["-fopenmp"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.column_sum(x)
