# status: WRONG_VALUES
# class: N1
# problem: level1/01_square_matmul
# shapes: small
# backend: cpp
"""The product in bfloat16."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        return (a.bfloat16() @ b.bfloat16()).float()
