"""Integer, float, bool and string arguments; a string selects the reduction."""

import torch
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/extension.h>
#include <string>
#include <stdexcept>

torch::Tensor huber(torch::Tensor pred, torch::Tensor target, float delta, const std::string& reduction) {
    if (!pred.sizes().equals(target.sizes())) {
        throw std::invalid_argument("shape mismatch");
    }
    auto p = pred.contiguous(), t = target.contiguous();
    auto loss = torch::empty(p.sizes(), p.options());
    const float* a = p.data_ptr<float>();
    const float* b = t.data_ptr<float>();
    float* l = loss.data_ptr<float>();
    double total = 0.0;
    for (int64_t i = 0; i < p.numel(); ++i) {
        float d = std::abs(a[i] - b[i]);
        l[i] = d < delta ? 0.5f * d * d : delta * (d - 0.5f * delta);
        total += l[i];
    }
    if (reduction == "none") return loss;
    if (reduction == "sum") return torch::tensor(static_cast<float>(total), p.options());
    return torch::scalar_tensor(total / p.numel(), p.options());
}

double checksum(torch::Tensor x, int64_t stride, bool absolute) {
    double s = 0;
    auto flat = x.flatten();
    for (int64_t i = 0; i < flat.size(0); i += stride) {
        double v = flat[i].item<double>();
        s += absolute ? std::fabs(v) : v;
    }
    return s;
}
"""

ext = load_inline("huber_ext", source, functions=["huber", "checksum"], extra_cflags=["-O3"])


def check():
    a, b = torch.randn(20, 3), torch.randn(20, 3)
    return [
        (ext.huber(a, b, 1.0, "mean"), F.huber_loss(a, b)),
        (ext.huber(a, b, 0.5, "sum"), F.huber_loss(a, b, reduction="sum", delta=0.5)),
        (ext.huber(a, b, 1.0, "none"), F.huber_loss(a, b, reduction="none")),
        (torch.tensor(ext.checksum(a, 2, True)), a.flatten()[::2].double().abs().sum()),
    ]
