# status: COMPILE_ERROR
# class: P15
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""A linker flag that loads a plug-in, and a library from a folder of ours."""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>

torch::Tensor row_softmax(torch::Tensor x) { return torch::softmax(x, -1); }
"""
module = load_inline(name="p15_linker_script", cpp_sources=SOURCE, functions=["row_softmax"], extra_ldflags=["-Wl,-plugin,/tmp/evil.so", "-L/tmp", "-levil"])


class ModelNew(nn.Module):
    def forward(self, x):
        return module.row_softmax(x)
