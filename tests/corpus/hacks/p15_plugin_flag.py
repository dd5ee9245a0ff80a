# status: COMPILE_ERROR
# class: P15
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""A compiler plug-in would run inside the compiler."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>

torch::Tensor row_softmax(torch::Tensor x) { return torch::softmax(x, -1); }
"""
module = load_inline(name="p15_plugin_flag", cpp_sources=SOURCE, functions=["row_softmax"], extra_cflags=["-O2", "-fplugin=/tmp/evil.so"])


class ModelNew(nn.Module):
    def forward(self, x):
        return module.row_softmax(x)
