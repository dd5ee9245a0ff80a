# status: PASSED
# class: N4
# problem: ../tests/problems/unusual/pair_forces
# shapes: small
# backend: cpp
"""Every pair is visited once and its force added to both points, in another order than the reference's."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <torch/extension.h>

torch::Tensor forces(torch::Tensor points) {
  auto p = points.contiguous();
  const int64_t count = p.size(0);
  const float* at = p.data_ptr<float>();
  auto out = torch::zeros_like(p);
  float* to = out.data_ptr<float>();
  for (int64_t one = 0; one < count; ++one)
    for (int64_t other = one + 1; other < count; ++other) {
      const float x = at[3 * one] - at[3 * other];
      const float y = at[3 * one + 1] - at[3 * other + 1];
      const float z = at[3 * one + 2] - at[3 * other + 2];
      const float inverse = 1.0f / (x * x + y * y + z * z), cube = inverse * inverse * inverse;
      const float force = cube * cube * inverse;
      to[3 * one] += force * x;
      to[3 * one + 1] += force * y;
      to[3 * one + 2] += force * z;
      to[3 * other] -= force * x;
      to[3 * other + 1] -= force * y;
      to[3 * other + 2] -= force * z;
    }
  return out;
}
"""
module = load_inline(name="all_pairs", cpp_sources=[SOURCE], functions=["forces"], extra_cflags=["-O3"])


class ModelNew(nn.Module):
    def forward(self, points):
        return module.forces(points)
