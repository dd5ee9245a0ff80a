# status: PASSED
# class: O9 O12
# problem: ../tests/problems/answers/sum_and_difference
# shapes: small
# backend: cuda
"""Both outputs lie interleaved in one allocation: they share a storage and no element."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        both = x.new_empty(x.shape[0], 2, x.shape[1])
        torch.add(x, y, out=both[:, 0])
        torch.sub(x, y, out=both[:, 1])
        both.tanh_()
        return both[:, 0], both[:, 1]
