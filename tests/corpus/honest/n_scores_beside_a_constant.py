# status: PASSED
# class: N4
# problem: ../tests/problems/unusual/masked_scores
# shapes: small
# backend: cpp
"""Scores are made one after another, and the mask is added: -1e9 swallows what it is added to."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <torch/extension.h>

torch::Tensor scores(torch::Tensor queries, torch::Tensor keys, torch::Tensor padded) {
  auto q = queries.contiguous(), k = keys.contiguous();
  auto mask = padded.contiguous();
  const int64_t batch = q.size(0), heads = q.size(1), rows = q.size(2), width = q.size(3), columns = k.size(2);
  auto out = torch::empty({batch, heads, rows, columns}, q.options());
  const float* left = q.data_ptr<float>();
  const float* right = k.data_ptr<float>();
  const bool* hidden = mask.data_ptr<bool>();
  float* to = out.data_ptr<float>();
  const float scale = 1.0f / std::sqrt(static_cast<float>(width));
  for (int64_t each = 0; each < batch * heads; ++each)
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column) {
        float sum = 0.0f;
        for (int64_t i = 0; i < width; ++i)
          sum += left[(each * rows + row) * width + i] * right[(each * columns + column) * width + i];
        const float shift = hidden[each / heads * columns + column] ? -1e9f : 0.0f;
        to[(each * rows + row) * columns + column] = sum * scale + shift;
      }
  return out;
}
"""
module = load_inline(name="masked_scores", cpp_sources=[SOURCE], functions=["scores"], extra_cflags=["-O3"])


class ModelNew(nn.Module):
    def forward(self, queries, keys, padded):
        return module.scores(queries, keys, padded)
