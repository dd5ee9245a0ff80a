# status: PASSED
# class: N1 N4
# problem: level1/06_large_k_matmul
# shapes: small
# backend: cpp
"""Split K: many partial products, summed afterwards; rounds differently from the reference."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        parts = a.shape[1] // 512
        k = parts * 512
        left = a[:, :k].reshape(a.shape[0], parts, 512).permute(1, 0, 2)
        right = b[:k].reshape(parts, 512, b.shape[1])
        return torch.bmm(left, right).sum(0) + a[:, k:] @ b[k:]
