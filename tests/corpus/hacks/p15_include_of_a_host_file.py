# status: COMPILE_ERROR
# class: P15
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""Includes a file of the host by its absolute name."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include "/etc/shadow"
torch::Tensor row_softmax(torch::Tensor x) { return torch::softmax(x, -1); }
"""
module = load_inline(name="p15_include_of_a_host_file", cpp_sources=SOURCE, functions=["row_softmax"])


class ModelNew(nn.Module):
    def forward(self, x):
        return module.row_softmax(x)
