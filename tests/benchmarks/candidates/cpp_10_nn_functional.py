"""torch::nn::functional inside the extension."""

import torch
import torch.nn.functional as tF
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/extension.h>
#include <torch/nn/functional.h>

namespace F = torch::nn::functional;

torch::Tensor mlp(torch::Tensor x, torch::Tensor w1, torch::Tensor b1, torch::Tensor w2, torch::Tensor b2) {
    auto h = F::linear(x, w1, b1);
    h = F::relu(h, F::ReLUFuncOptions().inplace(true));
    return F::softmax(F::linear(h, w2, b2), F::SoftmaxFuncOptions(1));
}
"""

ext = load_inline("nn_functional", source, functions=["mlp"], extra_cflags=["-O2"])


def check():
    x, w1, b1 = torch.randn(4, 8), torch.randn(16, 8), torch.randn(16)
    w2, b2 = torch.randn(3, 16), torch.randn(3)
    return [(ext.mlp(x, w1, b1, w2, b2), torch.softmax(tF.linear(torch.relu(tF.linear(x, w1, b1)), w2, b2), 1))]
