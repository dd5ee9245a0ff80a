"""Many independent mid-sized products, C[i] = A[i] B[i]: how to spread small tiles over the whole device."""

import torch
from torch import nn

BATCH = 96
M = 512
K = 384
N = 640

SHAPES = {
    "small": {"BATCH": 24, "M": 112, "K": 160, "N": 144},
    "odd": {"BATCH": 19, "M": 109, "K": 151, "N": 127},
}


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.bmm(a, b)


def get_inputs():
    return [torch.randn(BATCH, M, K), torch.randn(BATCH, K, N)]


def get_init_inputs():
    return []
