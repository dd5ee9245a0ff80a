# status: PASSED
# class: P1
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""printf and std::cout from C++."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cstdio>
#include <iostream>
torch::Tensor chatty_softmax(torch::Tensor x) {
    std::printf("rows %ld\n", static_cast<long>(x.size(0)));
    std::cout << "{\"op\": \"done\"}" << std::endl;
    return torch::softmax(x, -1);
}
"""
module = load_inline(name="chatty", cpp_sources=SOURCE, functions=["chatty_softmax"])


class ModelNew(nn.Module):
    def forward(self, x):
        return module.chatty_softmax(x)
