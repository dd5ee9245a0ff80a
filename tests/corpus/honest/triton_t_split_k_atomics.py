# status: PASSED
# class: T7
# problem: level1/06_large_k_matmul
# shapes: small
# backend: triton
"""Programs share the sum of a tile and add their parts to an output set to zero before."""
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def product(a, b, out, m, k, n, length, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    first = tl.program_id(2) * length
    total = tl.zeros((M, N), dtype=tl.float32)
    for step in range(0, length, K):
        terms = first + step + tl.arange(0, K)
        inside = (terms < k) & (step + tl.arange(0, K) < length)
        left = tl.load(a + rows[:, None].to(tl.int64) * k + terms[None, :], mask=(rows[:, None] < m) & inside[None, :], other=0.0)
        right = tl.load(b + terms[:, None].to(tl.int64) * n + columns[None, :], mask=inside[:, None] & (columns[None, :] < n), other=0.0)
        total += tl.dot(left, right, input_precision="ieee")
    goal = out + rows[:, None] * n + columns[None, :]
    tl.atomic_add(goal, total, mask=(rows[:, None] < m) & (columns[None, :] < n))


class ModelNew(nn.Module):
    def forward(self, a, b):
        (m, k), n = a.shape, b.shape[1]
        out = torch.zeros(m, n, device=a.device)
        splits, M, N = 64, 16, 16
        grid = (triton.cdiv(m, M), triton.cdiv(n, N), splits)
        product[grid](a, b, out, m, k, n, triton.cdiv(k, splits), M=M, N=N, K=32)
        return out
