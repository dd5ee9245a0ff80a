"""Noisy token choice: repeated tokens are penalised by count, improbable ones are dropped.

Two passes over a row suffice, one for its maximum, one for the best noisy score; plain operators write
several rows of results.
"""

import torch
from torch import nn

ROWS = 256
VOCABULARY = 131072
LEAST_SHARE = 0.02

SHAPES = {"small": {"ROWS": 16, "VOCABULARY": 4096}, "odd": {"ROWS": 7, "VOCABULARY": 3001}}


class Model(nn.Module):
    def __init__(self, least_share: float):
        super().__init__()
        self.least_share = least_share

    def forward(
        self, logits: torch.Tensor, counts: torch.Tensor, penalties: torch.Tensor, noise: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns each row's best noisy score, and the logarithm of the sum over tokens that were kept."""
        scores = logits - penalties[:, None] * counts
        probability = torch.softmax(scores, dim=-1)
        dropped = probability < self.least_share * probability.amax(dim=-1, keepdim=True)
        kept = scores.masked_fill(dropped, float("-inf"))
        return (kept + noise).amax(dim=-1), torch.logsumexp(kept, dim=-1)


def get_inputs():
    counts = torch.poisson(torch.full((ROWS, VOCABULARY), 0.7))
    noise = -torch.empty(ROWS, VOCABULARY).exponential_().log()
    return [3.0 * torch.randn(ROWS, VOCABULARY), counts, 0.5 + torch.rand(ROWS), noise]


def get_init_inputs():
    return [LEAST_SHARE]
