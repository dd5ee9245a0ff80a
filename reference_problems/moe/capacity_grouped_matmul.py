"""Products of expert buffers with their weights where each buffer is filled to a part only, in bfloat16.

The dense form multiplies the padding; a kernel reads the counts and skips tiles beyond them. Counts are drawn
anew, a third of the capacity on average; rows beyond a count are zero in the result.
"""

import torch
from torch import nn

EXPERTS = 32
CAPACITY = 512
FEATURES = 1024
OUTPUTS = 1024

SHAPES = {
    "small": {"EXPERTS": 4, "CAPACITY": 64, "FEATURES": 96, "OUTPUTS": 64},
    "odd": {"EXPERTS": 3, "CAPACITY": 53, "FEATURES": 83, "OUTPUTS": 59},
}


class Model(nn.Module):
    def __init__(self, experts: int, features: int, outputs: int):
        super().__init__()
        weight = torch.randn(experts, features, outputs) / features**0.5
        self.weight = nn.Parameter(weight.bfloat16())

    def forward(self, x: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        filled = torch.arange(x.shape[1], device=x.device) < counts[:, None]
        return torch.where(filled[..., None], x @ self.weight, 0.0)


def get_inputs():
    counts = (CAPACITY * torch.rand(EXPERTS).square()).long().clamp(min=1)
    return [torch.randn(EXPERTS, CAPACITY, FEATURES).bfloat16(), counts]


def get_init_inputs():
    return [EXPERTS, FEATURES, OUTPUTS]
