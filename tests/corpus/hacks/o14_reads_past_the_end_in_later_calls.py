# status: MEMORY_ERROR
# class: O14 D1
# problem: level1/13_row_mean
# shapes: small
# backend: cpp
"""Reads one number past the end of its input from the thirtieth call on, when guarded ones are over."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
torch::Tensor row_mean(torch::Tensor x) {
  static int calls = 0;
  x = x.contiguous();
  const int64_t rows = x.size(0), columns = x.size(1);
  auto out = torch::empty({rows}, x.options());
  const float* in = x.data_ptr<float>();
  volatile float beyond = ++calls > 30 ? in[rows * columns] : 0.0f;
  (void)beyond;
  for (int64_t row = 0; row < rows; ++row) {
    double sum = 0;
    for (int64_t column = 0; column < columns; ++column) sum += in[row * columns + column];
    out.data_ptr<float>()[row] = sum / columns;
  }
  return out;
}
"""
module = load_inline(name="late", cpp_sources=SOURCE, functions=["row_mean"], extra_cflags=["-O3"])


class ModelNew(nn.Module):
    def forward(self, x):
        return module.row_mean(x)
