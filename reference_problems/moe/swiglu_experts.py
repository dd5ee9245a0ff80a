"""Mixture of gated feed-forward experts: a token sums the outputs of a few.

The loop over experts launches many small products and gathers rows; a grouped kernel sorts tokens once and
multiplies each expert's tokens in one launch. Experts are chosen at random, evenly. In bfloat16.
"""

import torch
from torch import nn

TOKENS = 1024
EXPERTS = 32
CHOSEN = 4
FEATURES = 1024
HIDDEN = 512

SHAPES = {
    "small": {"TOKENS": 64, "EXPERTS": 8, "CHOSEN": 2, "FEATURES": 96, "HIDDEN": 64},
    "odd": {"TOKENS": 53, "EXPERTS": 7, "CHOSEN": 3, "FEATURES": 83, "HIDDEN": 59},
}


class Model(nn.Module):
    def __init__(self, experts: int, features: int, hidden: int):
        super().__init__()
        up = torch.randn(experts, features, 2 * hidden) / features**0.5
        down = torch.randn(experts, hidden, features) / hidden**0.5
        self.up, self.down = nn.Parameter(up.bfloat16()), nn.Parameter(down.bfloat16())

    def forward(self, x: torch.Tensor, experts: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """x is [tokens, features], experts and weights [tokens, chosen]; returns float32 sums."""
        share = torch.zeros(len(x), len(self.up), device=x.device, dtype=weights.dtype)
        share = share.scatter_add(1, experts, weights)
        total = torch.zeros(x.shape, device=x.device, dtype=weights.dtype)
        for expert in range(len(self.up)):
            gate, value = (x @ self.up[expert]).chunk(2, dim=-1)
            hidden = nn.functional.silu(gate.float()) * value.float()
            output = hidden.to(x.dtype) @ self.down[expert]
            total = total + share[:, expert, None] * output.to(weights.dtype)
        return total


def get_inputs():
    experts = torch.rand(TOKENS, EXPERTS).argsort(dim=-1)[:, :CHOSEN]
    weights = torch.softmax(torch.randn(TOKENS, CHOSEN), dim=-1)
    return [torch.randn(TOKENS, FEATURES).bfloat16(), experts, weights]


def get_init_inputs():
    return [EXPERTS, FEATURES, HIDDEN]
