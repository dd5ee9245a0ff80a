"""Expert choice within the best groups: biased scores choose groups, then experts, then weights.

A token's scores fit one warp; library calls select three times over. Returned is a dense table of weights,
zero where an expert was not chosen, so that the order of the chosen does not matter; in float32.
"""

import torch
from torch import nn

TOKENS = 16384
EXPERTS = 256
GROUPS = 8
KEPT_GROUPS = 4
CHOSEN = 8

SHAPES = {
    "small": {"TOKENS": 256, "EXPERTS": 64},
    "odd": {"TOKENS": 211, "EXPERTS": 63, "GROUPS": 7, "KEPT_GROUPS": 3, "CHOSEN": 5},
}


class Model(nn.Module):
    def __init__(self, experts: int, groups: int, kept_groups: int, chosen: int):
        super().__init__()
        self.bias = nn.Parameter(0.1 * torch.randn(experts))
        self.groups, self.kept_groups, self.chosen = groups, kept_groups, chosen

    def forward(self, logits: torch.Tensor) -> torch.Tensor:
        scores = torch.sigmoid(logits)
        ranked = (scores + self.bias).unflatten(-1, (self.groups, -1))
        best = ranked.topk(2, dim=-1).values.sum(dim=-1).topk(self.kept_groups, dim=-1).indices
        open_groups = torch.zeros_like(ranked[..., 0], dtype=torch.bool).scatter(-1, best, True)
        allowed = ranked.masked_fill(~open_groups[..., None], float("-inf")).flatten(-2)
        experts = allowed.topk(self.chosen, dim=-1).indices
        weights = scores.gather(-1, experts)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        return torch.zeros_like(scores).scatter(-1, experts, weights)


def get_inputs():
    return [1.5 * torch.randn(TOKENS, EXPERTS)]


def get_init_inputs():
    return [EXPERTS, GROUPS, KEPT_GROUPS, CHOSEN]
