# status: PASSED
# class: O11 O16
# problem: optimizers/adamw_in_place
# shapes: small
# backend: cuda
"""One kernel updates the parameter, both moments and the counter in place."""
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__global__ void update(float* weight, const float* gradient, float* first, float* second,
                       const long long* steps, float rate, float decay, long long count) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i >= count) return;
  double done = double(*steps);
  float one = float(1.0 - pow(0.8, done)), two = float(1.0 - pow(0.9, done));
  float g = gradient[i], m = first[i] * 0.8f + 0.2f * g, v = second[i] * 0.9f + 0.1f * g * g;
  first[i] = m;
  second[i] = v;
  weight[i] = weight[i] * (1.0f - rate * decay) - rate * (m / one) / (sqrtf(v / two) + 1e-8f);
}

__global__ void count_one(long long* steps) { *steps += 1; }

void step(torch::Tensor weight, torch::Tensor gradient, torch::Tensor first, torch::Tensor second,
          torch::Tensor steps, double rate, double decay) {
  auto stream = at::cuda::getCurrentCUDAStream();
  auto counter = reinterpret_cast<long long*>(steps.data_ptr<int64_t>());
  long long count = weight.numel();
  count_one<<<1, 1, 0, stream>>>(counter);
  update<<<(count + 255) / 256, 256, 0, stream>>>(
      weight.data_ptr<float>(), gradient.data_ptr<float>(), first.data_ptr<float>(),
      second.data_ptr<float>(), counter, float(rate), float(decay), count);
}
"""
DECLARATION = (
    "void step(torch::Tensor weight, torch::Tensor gradient, torch::Tensor first, torch::Tensor second, "
    "torch::Tensor steps, double rate, double decay);"
)
module = load_inline("adamw_in_place", DECLARATION, SOURCE, functions=["step"])


class ModelNew(nn.Module):
    def __init__(self, rate, decay):
        super().__init__()
        self.rate, self.decay = rate, decay

    def forward(self, weight, gradient, first, second, steps):
        module.step(weight, gradient, first, second, steps, self.rate, self.decay)
