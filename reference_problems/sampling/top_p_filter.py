"""Nucleus filter: the most probable tokens that together reach p, renormalised.

The plain form sorts every row, scans it and scatters back; a kernel searches the threshold by bisection and
never sorts.
"""

import torch
from torch import nn

ROWS = 128
VOCABULARY = 32768

SHAPES = {"small": {"ROWS": 16, "VOCABULARY": 2048}, "odd": {"ROWS": 7, "VOCABULARY": 1511}}


class Model(nn.Module):
    def forward(self, logits: torch.Tensor, limits: torch.Tensor) -> torch.Tensor:
        """Tokens stay while those before them, in descending order, sum to less than the limit."""
        ordered, tokens = torch.softmax(logits, dim=-1).sort(dim=-1, descending=True)
        before = ordered.cumsum(dim=-1) - ordered
        kept = torch.where(before < limits[:, None], ordered, 0.0)
        kept = kept / kept.sum(dim=-1, keepdim=True)
        return torch.zeros_like(logits).scatter(-1, tokens, kept)


def get_inputs():
    return [3.0 * torch.randn(ROWS, VOCABULARY), 0.5 + 0.45 * torch.rand(ROWS)]


def get_init_inputs():
    return []
