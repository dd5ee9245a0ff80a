# status: PASSED
# class: P15
# problem: level1/14_max_reduction
# shapes: small
# backend: cpp
"""torch.utils.cpp_extension.load with a source and a header written to a temporary folder."""
import os
import pathlib
import tempfile

import torch
from torch import nn
from torch.utils.cpp_extension import load

FOLDER = pathlib.Path(tempfile.mkdtemp())
(FOLDER / "maximum.h").write_text("#pragma once\ninline float larger(float a, float b) { return b > a || b != b ? b : a; }\n")
(FOLDER / "maximum.cpp").write_text(r"""
#include <torch/extension.h>
#include "maximum.h"
torch::Tensor middle_max(torch::Tensor x) {
    x = x.contiguous();
    const int64_t batch = x.size(0), steps = x.size(1), features = x.size(2);
    auto out = x.select(1, 0).contiguous().clone();
    const float* source = x.data_ptr<float>();
    float* target = out.data_ptr<float>();
    for (int64_t b = 0; b < batch; ++b)
        for (int64_t s = 1; s < steps; ++s)
            for (int64_t f = 0; f < features; ++f)
                target[b * features + f] = larger(target[b * features + f], source[(b * steps + s) * features + f]);
    return out;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("middle_max", &middle_max, "maximum over dim 1"); }
""")
module = load(
    name="maximum_from_files", sources=[os.fspath(FOLDER / "maximum.cpp")], extra_cflags=["-O3"], extra_include_paths=[str(FOLDER)]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.middle_max(x)
