# status: PASSED
# class: T18 T1
# problem: level1/12_column_sum
# shapes: small
# backend: cuda
"""A workspace is set to zero on a side stream that waits for nothing; the sums wait for it."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.side = torch.cuda.Stream()

    def forward(self, x):
        current = torch.cuda.current_stream()
        with torch.cuda.stream(self.side):
            total = torch.zeros(x.shape[0], x.shape[2], device=x.device)
        current.wait_stream(self.side)
        total.record_stream(current)
        for part in x.chunk(4, dim=1):
            total += part.sum(dim=1)
        return total
