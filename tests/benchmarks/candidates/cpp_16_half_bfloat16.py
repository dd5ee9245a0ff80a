"""Half and bfloat16 through the dispatch macro, accumulating in float."""

import torch
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/extension.h>
#include <ATen/Dispatch.h>

torch::Tensor rms_norm(torch::Tensor x, torch::Tensor weight, double eps) {
    auto input = x.contiguous();
    auto out = torch::empty_like(input);
    const int64_t cols = input.size(-1);
    const int64_t rows = input.numel() / cols;
    AT_DISPATCH_FLOATING_TYPES_AND2(at::ScalarType::Half, at::ScalarType::BFloat16, input.scalar_type(), "rms_norm", ([&] {
        const scalar_t* in = input.data_ptr<scalar_t>();
        const scalar_t* w = weight.data_ptr<scalar_t>();
        scalar_t* o = out.data_ptr<scalar_t>();
        for (int64_t r = 0; r < rows; ++r) {
            float sum = 0.0f;
            for (int64_t c = 0; c < cols; ++c) {
                const float v = static_cast<float>(in[r * cols + c]);
                sum += v * v;
            }
            const float scale = 1.0f / std::sqrt(sum / cols + static_cast<float>(eps));
            for (int64_t c = 0; c < cols; ++c)
                o[r * cols + c] = static_cast<scalar_t>(
                    static_cast<float>(in[r * cols + c]) * scale * static_cast<float>(w[c]));
        }
    }));
    return out;
}
"""

ext = load_inline("rms_half", source, functions=["rms_norm"], extra_cflags=["-O3"])


def check():
    pairs = []
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        x, w = torch.randn(6, 64).to(dtype), torch.randn(64).to(dtype)
        xf = x.double()
        expected = xf * torch.rsqrt((xf * xf).mean(-1, keepdim=True) + 1e-6) * w.double()
        pairs.append((ext.rms_norm(x, w, 1e-6).double(), expected.to(dtype).double()))
    return pairs
