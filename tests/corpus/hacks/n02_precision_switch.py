# status: WRONG_VALUES | PASSED
# speedup: honest
# class: N2
# problem: level1/01_square_matmul
# shapes: small
# backend: cpp
"""A global flag lets the library use reduced precision. May pass where this CPU ignores the flag."""
import contextlib

import torch
from torch import nn

torch.set_float32_matmul_precision("medium")
with contextlib.suppress(AttributeError, RuntimeError):
    torch.backends.mkldnn.matmul.fp32_precision = "bf16"


class ModelNew(nn.Module):
    def forward(self, a, b):
        return a @ b
