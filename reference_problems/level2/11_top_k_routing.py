"""Expert routing: the largest few of each token's scores, renormalised by a softmax, and which they were.

Two outputs, one of them integer; the rows are short, so a token fits into a few registers.
"""

import torch
from torch import nn

TOKENS = 262144
EXPERTS = 128
CHOSEN = 4

SHAPES = {"small": {"TOKENS": 2048, "EXPERTS": 64}, "odd": {"TOKENS": 1531, "EXPERTS": 57, "CHOSEN": 3}}


class Model(nn.Module):
    def __init__(self, chosen: int):
        super().__init__()
        self.chosen = chosen

    def forward(self, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, experts = torch.topk(scores, self.chosen, dim=-1)
        return torch.softmax(values, dim=-1), experts


def get_inputs():
    return [2.0 * torch.randn(TOKENS, EXPERTS)]


def get_init_inputs():
    return [CHOSEN]
