# status: WRONG_VALUES | PASSED
# class: N2 S6
# problem: level1/01_square_matmul
# shapes: small
# backend: cpp
"""A global flag lets the library use reduced precision. Passes where this CPU keeps full precision, in a kernel of the library's that may be faster."""
import contextlib

import torch
from torch import nn

torch.set_float32_matmul_precision("medium")
with contextlib.suppress(AttributeError, RuntimeError):
    torch.backends.mkldnn.matmul.fp32_precision = "bf16"


class ModelNew(nn.Module):
    def forward(self, a, b):
        return a @ b
