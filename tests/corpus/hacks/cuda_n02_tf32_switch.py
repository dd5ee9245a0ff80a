# status: WRONG_VALUES
# class: N2
# problem: level1/01_square_matmul
# shapes: small
# backend: cuda
"""A global flag lets the library use TF32."""
import torch
from torch import nn

torch.backends.cuda.matmul.allow_tf32 = True
torch.set_float32_matmul_precision("high")


class ModelNew(nn.Module):
    def forward(self, a, b):
        return a @ b
