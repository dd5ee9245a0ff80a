import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CPP_SOURCE = r"""
#include <torch/extension.h>
#include <ATen/Parallel.h>
#include <algorithm>

// A row's sum in 16 independent lanes: the compiler turns the inner loop into vector code, and no single
// accumulator collects thousands of rounding errors.
static float distance(const float* x, const float* y, const float* weight, int64_t features, float clip) {
    constexpr int64_t LANES = 16;
    float lanes[LANES] = {};
    const int64_t whole = features / LANES * LANES;
    for (int64_t i = 0; i < whole; i += LANES) {
#pragma GCC unroll 16
        for (int64_t j = 0; j < LANES; ++j) {
            const float d = std::min(std::max(x[i + j] - y[i + j], -clip), clip);
            lanes[j] += d * d * weight[i + j];
        }
    }
    float sum = 0.0f;
    for (int64_t i = whole; i < features; ++i) {
        const float d = std::min(std::max(x[i] - y[i], -clip), clip);
        sum += d * d * weight[i];
    }
    for (int64_t width = LANES / 2; width > 0; width /= 2)
        for (int64_t j = 0; j < width; ++j) lanes[j] += lanes[j + width];
    return sum + lanes[0];
}

torch::Tensor forward(torch::Tensor x, torch::Tensor y, torch::Tensor weight, double clip) {
    TORCH_CHECK(x.scalar_type() == torch::kFloat32 && x.sizes() == y.sizes(), "two equal fp32 inputs");
    x = x.contiguous();
    y = y.contiguous();
    weight = weight.contiguous();
    const int64_t features = x.size(-1);
    const int64_t rows = features ? x.numel() / features : 0;
    const auto shape = x.sizes().slice(0, x.dim() - 1);
    auto out = features ? torch::empty(shape, x.options()) : torch::zeros(shape, x.options());
    const float* xp = x.data_ptr<float>();
    const float* yp = y.data_ptr<float>();
    const float* wp = weight.data_ptr<float>();
    float* op = out.data_ptr<float>();
    const int64_t grain = std::max<int64_t>(1, 32768 / std::max<int64_t>(1, features));
    at::parallel_for(0, rows, grain, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row)
            op[row] = distance(xp + row * features, yp + row * features, wp, features, static_cast<float>(clip));
    });
    return out;
}
"""

extension = load_inline(
    name="clipped_distance",
    cpp_sources=CPP_SOURCE,
    functions=["forward"],
    extra_cflags=["-O3", "-march=native", "-fno-math-errno"],
)


class ModelNew(nn.Module):
    def __init__(self, features: int, clip: float):
        super().__init__()
        self.clip = clip
        self.weight = nn.Parameter(torch.rand(features) + 0.5)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return extension.forward(x, y, self.weight, self.clip)
