"""A C++ class exposed with py::class_, holding a workspace."""

import torch
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/extension.h>

class RunningMean {
public:
    explicit RunningMean(int64_t width) : total_(torch::zeros({width})), count_(0) {}
    void update(const torch::Tensor& x) {
        total_ += x.sum(0);
        count_ += x.size(0);
    }
    torch::Tensor mean() const { return total_ / static_cast<double>(count_); }
private:
    torch::Tensor total_;
    int64_t count_;
};

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    py::class_<RunningMean>(m, "RunningMean")
        .def(py::init<int64_t>())
        .def("update", &RunningMean::update)
        .def("mean", &RunningMean::mean);
}
"""

ext = load_inline("running_mean", source, extra_cflags=["-O2"])


def check():
    x, y = torch.randn(7, 4), torch.randn(3, 4)
    running = ext.RunningMean(4)
    running.update(x)
    running.update(y)
    return [(running.mean(), torch.cat([x, y]).mean(0))]
