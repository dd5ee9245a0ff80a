# status: PASSED
# class: O13 N1
# problem: level1/12_column_sum
# shapes: odd
# backend: cpp
"""Partial sums of several threads added to one place atomically, in whatever order they come."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
torch::Tensor run(torch::Tensor x) {
    const long batch = x.size(0), steps = x.size(1), features = x.size(2);
    auto out = torch::zeros({batch, features}, x.options());
    const float* in = x.data_ptr<float>();
    float* o = out.data_ptr<float>();
    #pragma omp parallel for schedule(dynamic, 3) collapse(2)
    for (long b = 0; b < batch; ++b)
        for (long chunk = 0; chunk < 4; ++chunk)
            for (long f = 0; f < features; ++f) {
                float part = 0;
                for (long s = steps * chunk / 4; s < steps * (chunk + 1) / 4; ++s) part += in[(b * steps + s) * features + f];
                #pragma omp atomic
                o[b * features + f] += part;
            }
    return out;
}
"""
module = load_inline(
    name="atomics", cpp_sources=SOURCE, functions=["run"], extra_cflags=["-O3", "-fopenmp"], extra_ldflags=["-fopenmp"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.run(x)
