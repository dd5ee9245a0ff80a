# status: PASSED
# class: M6 O1
# problem: ../tests/problems/answers/three_statistics
# shapes: small
# backend: cpp
"""One pass over each row gives all three outputs of a call that is as short as what is done with its outputs."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <algorithm>
std::vector<torch::Tensor> statistics(torch::Tensor x) {
    const int64_t count = x.size(0), width = x.size(1);
    auto sums = torch::empty({count}, x.options()), most = torch::empty_like(sums), least = torch::empty_like(sums);
    const float* source = x.data_ptr<float>();
    for (int64_t row = 0; row < count; ++row, source += width) {
        float sum[16] = {}, top[16], low[16];
        for (int i = 0; i < 16; ++i) top[i] = low[i] = source[0];
        int64_t done = 0;
        for (; done + 16 <= width; done += 16)
            for (int i = 0; i < 16; ++i) {
                const float value = source[done + i];
                sum[i] += value;
                top[i] = value > top[i] ? value : top[i];
                low[i] = value < low[i] ? value : low[i];
            }
        for (; done < width; ++done) {
            sum[0] += source[done];
            top[0] = std::max(top[0], source[done]);
            low[0] = std::min(low[0], source[done]);
        }
        for (int i = 1; i < 16; ++i) {
            sum[0] += sum[i];
            top[0] = std::max(top[0], top[i]);
            low[0] = std::min(low[0], low[i]);
        }
        sums.data_ptr<float>()[row] = sum[0];
        most.data_ptr<float>()[row] = top[0];
        least.data_ptr<float>()[row] = low[0];
    }
    return {sums, most, least};
}
"""
module = load_inline(name="statistics", cpp_sources=SOURCE, functions=["statistics"], extra_cflags=["-O3"])


class ModelNew(nn.Module):
    def forward(self, x):
        return module.statistics(x)
