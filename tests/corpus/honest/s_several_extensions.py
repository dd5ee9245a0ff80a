# status: PASSED
# class: P15
# problem: level2/08_residual_rms_norm
# shapes: small
# backend: cpp
"""Two extensions, one with its own PYBIND11_MODULE, one with several sources and default arguments."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ADD = r"""
#include <torch/extension.h>
torch::Tensor add(torch::Tensor a, torch::Tensor b, double factor) { return a + factor * b; }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.doc() = "residual sums";
    m.def("add", &add, pybind11::arg("a"), pybind11::arg("b"), pybind11::arg("factor") = 1.0);
}
"""
DECLARATION = "#include <torch/extension.h>\nstd::tuple<torch::Tensor, double> scaled(torch::Tensor x, torch::Tensor w, double e);\n"
NORM = r"""
#include <cmath>
std::tuple<torch::Tensor, double> scaled(torch::Tensor x, torch::Tensor w, double e) {
    auto y = x * torch::rsqrt(x.square().mean(-1, true) + e) * w;
    return {y, e};
}
"""
adder = load_inline(name="adder", cpp_sources=ADD, extra_cflags=["-O2"])
norm = load_inline(name="norm", cpp_sources=[DECLARATION, NORM], functions="scaled", extra_cflags=["-O2"])


class ModelNew(nn.Module):
    def __init__(self, features, epsilon):
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(1.0 + 0.3 * torch.randn(features))

    def forward(self, x, residual):
        total = adder.add(x, b=residual)
        return norm.scaled(total, self.weight, self.epsilon)[0], total
