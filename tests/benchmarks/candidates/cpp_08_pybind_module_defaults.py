"""The candidate writes its own PYBIND11_MODULE with keyword arguments and defaults."""

import torch
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/extension.h>

torch::Tensor leaky_relu(torch::Tensor x, double slope, bool inplace) {
    auto out = inplace ? x : torch::empty_like(x);
    auto n = x.numel();
    auto* src = x.data_ptr<float>();
    auto* dst = out.data_ptr<float>();
    const float s = static_cast<float>(slope);
    for (int64_t i = 0; i < n; ++i) dst[i] = src[i] >= 0 ? src[i] : src[i] * s;
    return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.doc() = "leaky relu";
    m.def("leaky_relu", &leaky_relu, "Leaky ReLU (CPU)",
          py::arg("x"), py::arg("slope") = 0.01, py::arg("inplace") = false);
}
"""

ext = load_inline(name="leaky_module", cpp_sources=source, extra_cflags=["-O3"])


def check():
    x = torch.randn(9, 77)
    return [
        (ext.leaky_relu(x), F.leaky_relu(x)),
        (ext.leaky_relu(x, slope=0.2), F.leaky_relu(x, 0.2)),
        (ext.leaky_relu(x.clone(), inplace=True), F.leaky_relu(x)),
    ]
