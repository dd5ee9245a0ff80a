# status: PASSED
# class: M4 N2
# problem: level1/01_square_matmul
# shapes: small
# backend: cpp
"""Sets the library's precision flags to the strictest there is, and restores nothing."""
import torch
from torch import nn

torch.set_float32_matmul_precision("highest")
torch.backends.cuda.matmul.allow_tf32 = False
torch.manual_seed(1234)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.mm(a, b)
