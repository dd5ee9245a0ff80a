"""One step of beam search: the best continuations over all beams by log-probability.

A hierarchical selection reads the logits once and stores no log-softmax; plain operators store it and select
over all beams.
"""

import torch
from torch import nn

BATCH = 32
BEAMS = 8
VOCABULARY = 65536
CHOSEN = 16

SHAPES = {
    "small": {"BATCH": 4, "BEAMS": 4, "VOCABULARY": 1024, "CHOSEN": 8},
    "odd": {"BATCH": 3, "BEAMS": 3, "VOCABULARY": 1003, "CHOSEN": 5},
}


class Model(nn.Module):
    def __init__(self, chosen: int):
        super().__init__()
        self.chosen = chosen

    def forward(self, logits: torch.Tensor, totals: torch.Tensor) -> torch.Tensor:
        """Totals of the best continuations [batch, chosen], descending."""
        scores = totals[..., None] + torch.log_softmax(logits, dim=-1)
        return torch.topk(scores.flatten(1), self.chosen, dim=-1).values


def get_inputs():
    return [3.0 * torch.randn(BATCH, BEAMS, VOCABULARY), torch.randn(BATCH, BEAMS) - 4.0]


def get_init_inputs():
    return [CHOSEN]
