"""Cross-entropy of each token and its gradient with respect to the logits, in one call, in bfloat16.

A row held on chip serves loss and gradient: one read and one write. Plain operators pass over the logits
several times.
"""

import torch
from torch import nn

TOKENS = 4096
VOCABULARY = 65536

SHAPES = {"small": {"TOKENS": 96, "VOCABULARY": 2048}, "odd": {"TOKENS": 83, "VOCABULARY": 1511}}


class Model(nn.Module):
    def forward(
        self, logits: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Weighted loss [tokens] in float32, and its gradient in the logits' type."""
        wide = logits.float()
        normalizer = torch.logsumexp(wide, dim=-1, keepdim=True)
        loss = weights * (normalizer[:, 0] - wide.gather(-1, labels[:, None])[:, 0])
        hot = torch.nn.functional.one_hot(labels, logits.shape[-1])
        gradient = weights[:, None] * (torch.exp(wide - normalizer) - hot)
        return loss, gradient.to(logits.dtype)


def get_inputs():
    logits = 4.0 * torch.randn(TOKENS, VOCABULARY).bfloat16()
    return [logits, torch.randint(0, VOCABULARY, (TOKENS,)), 0.5 + torch.rand(TOKENS)]


def get_init_inputs():
    return []
