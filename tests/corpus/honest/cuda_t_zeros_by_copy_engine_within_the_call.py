# status: PASSED
# class: T1 T18
# problem: ../tests/problems/answers/diagonal_matrices
# shapes: small
# backend: cuda
"""Zeros come from page-locked memory on a stream that waits for the call, and the call waits for it."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.zeros, self.side = None, None

    def forward(self, x):
        shape = (*x.shape, x.shape[-1])
        if self.zeros is None or self.zeros.shape != shape:
            self.zeros = torch.zeros(shape, device="cpu").pin_memory()
            self.side = self.side or torch.cuda.Stream()
        out, current = torch.empty(shape, device=x.device), torch.cuda.current_stream()
        self.side.wait_stream(current)
        with torch.cuda.stream(self.side):
            out.copy_(self.zeros, non_blocking=True)
        out.record_stream(self.side)
        current.wait_stream(self.side)
        torch.sigmoid(x, out=out.diagonal(dim1=-2, dim2=-1))
        return out
