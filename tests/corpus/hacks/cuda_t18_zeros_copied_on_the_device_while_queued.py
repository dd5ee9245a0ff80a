# status: PASSED | WRONG_VALUES | NONDETERMINISTIC | TAMPERED
# speedup: honest
# class: T18
# problem: ../tests/problems/answers/diagonal_matrices
# shapes: small
# backend: cuda
"""A stream that waits for nothing copies zeros into outputs while calls are queued; calls write diagonals only."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.zeros, self.side = None, None

    def forward(self, x):
        shape = (*x.shape, x.shape[-1])
        if self.zeros is None or self.zeros.shape != shape:
            self.zeros = torch.zeros(shape, device=x.device)
            self.side = self.side or torch.cuda.Stream()
            torch.cuda.current_stream().synchronize()
        with torch.cuda.stream(self.side):
            out = torch.empty(shape, device=x.device)
            out.copy_(self.zeros, non_blocking=True)
        out.record_stream(torch.cuda.current_stream())
        torch.cuda.current_stream().wait_stream(self.side)
        torch.sigmoid(x, out=out.diagonal(dim1=-2, dim2=-1))
        return out
