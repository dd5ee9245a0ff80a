# status: PASSED
# class: T4
# problem: level1/13_row_mean
# shapes: small
# backend: cpp
"""std::thread workers, joined; no OpenMP anywhere."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <algorithm>
#include <thread>
#include <vector>
torch::Tensor row_mean(torch::Tensor x) {
    x = x.contiguous();
    const int64_t rows = x.size(0), columns = x.size(1);
    auto out = torch::empty({rows}, x.options());
    const float* source = x.data_ptr<float>();
    float* target = out.data_ptr<float>();
    const int64_t workers = 2, share = (rows + workers - 1) / workers;
    std::vector<std::thread> threads;
    for (int64_t worker = 0; worker < workers; ++worker)
        threads.emplace_back([=] {
            for (int64_t row = worker * share; row < std::min(rows, (worker + 1) * share); ++row) {
                double sum = 0;
                for (int64_t i = 0; i < columns; ++i) sum += source[row * columns + i];
                target[row] = static_cast<float>(sum / static_cast<double>(columns));
            }
        });
    for (auto& thread : threads) thread.join();
    return out;
}
"""
module = load_inline(
    name="threaded_mean", cpp_sources=[SOURCE], functions=["row_mean"], extra_cflags=["-O3"], extra_ldflags=["-lpthread"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.row_mean(x)
