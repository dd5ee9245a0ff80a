# status: PASSED
# class: O11 O12
# problem: optimizers/adamw_in_place
# shapes: small
# backend: cpp
"""One native pass over all four arrays; writes to its arguments because the reference does."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>

void step(torch::Tensor weight, torch::Tensor gradient, torch::Tensor first, torch::Tensor second,
          torch::Tensor steps, double rate, double decay) {
  float* w = weight.data_ptr<float>();
  float* m = first.data_ptr<float>();
  float* v = second.data_ptr<float>();
  const float* g = gradient.data_ptr<float>();
  int64_t count = ++*steps.data_ptr<int64_t>();
  float one = 1 - std::pow(0.8, double(count)), two = 1 - std::pow(0.9, double(count));
  float keep = 1 - rate * decay, pace = rate;
  int64_t n = weight.numel();
  for (int64_t i = 0; i < n; ++i) {
    m[i] = m[i] * 0.8f + 0.2f * g[i];
    v[i] = v[i] * 0.9f + 0.1f * g[i] * g[i];
    w[i] = w[i] * keep - pace * (m[i] / one) / (std::sqrt(v[i] / two) + 1e-8f);
  }
}
"""
module = load_inline("fused_step", SOURCE, functions=["step"])


class ModelNew(nn.Module):
    def __init__(self, rate, decay):
        super().__init__()
        self.rate, self.decay = rate, decay

    def forward(self, weight, gradient, first, second, steps):
        module.step(weight, gradient, first, second, steps, self.rate, self.decay)
