# status: PASSED
# class: T1
# problem: level2/08_residual_rms_norm
# shapes: small
# backend: cuda
"""Part of the work runs on a second stream that the current one waits for."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features, epsilon):
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(1.0 + 0.3 * torch.randn(features))
        self.side = torch.cuda.Stream()

    def forward(self, x, residual):
        total = x + residual
        current = torch.cuda.current_stream()
        self.side.wait_stream(current)
        with torch.cuda.stream(self.side):
            scale = torch.rsqrt(total.square().mean(-1, keepdim=True) + self.epsilon)
            total.record_stream(self.side)
        weighted = total * self.weight
        current.wait_stream(self.side)
        scale.record_stream(current)
        return weighted * scale, total
