"""Several source strings that refer to one another."""

import torch
from torch.utils.cpp_extension import load_inline

declarations = """
#include <torch/extension.h>
torch::Tensor squared(torch::Tensor x);
torch::Tensor sum_of_squares(torch::Tensor x, int64_t dim, bool keepdim = false);
"""

definitions = """
torch::Tensor squared(torch::Tensor x) {
    auto out = torch::zeros_like(x);
    float* o = out.data_ptr<float>();
    const float* i = x.data_ptr<float>();
    for (int k = 0; k < x.numel(); k++) o[k] = i[k] * i[k];
    return out;
}
"""

more = """
torch::Tensor sum_of_squares(torch::Tensor x, int64_t dim, bool keepdim) {
    return squared(x.contiguous()).sum(dim, keepdim);
}
"""

ext = load_inline(
    name="several_sources",
    cpp_sources=[declarations, definitions, more],
    functions=["squared", "sum_of_squares"],
    extra_cflags=[""],
)


def check():
    x = torch.randn(6, 7)
    return [(ext.squared(x), x * x), (ext.sum_of_squares(x, 1, True), (x * x).sum(1, keepdim=True))]
