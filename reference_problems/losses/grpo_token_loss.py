"""Clipped policy loss per token against an old and a reference policy, with the unbiased divergence estimate.

Two rows of logits are reduced to a few numbers each; a kernel reads them once and stores only the loss.
"""

import torch
from torch import nn

TOKENS = 2048
VOCABULARY = 65536
CLIP = 0.2
STRENGTH = 0.05

SHAPES = {"small": {"TOKENS": 96, "VOCABULARY": 2048}, "odd": {"TOKENS": 83, "VOCABULARY": 1511}}


class Model(nn.Module):
    def __init__(self, clip: float, strength: float):
        super().__init__()
        self.clip, self.strength = clip, strength

    def forward(
        self,
        logits: torch.Tensor,
        reference: torch.Tensor,
        tokens: torch.Tensor,
        old: torch.Tensor,
        advantages: torch.Tensor,
    ) -> torch.Tensor:
        """Loss [tokens] from both logits [tokens, vocabulary] and the old log-probabilities [tokens]."""
        new, fixed = (_log_probability(each, tokens) for each in (logits, reference))
        ratio = torch.exp(new - old)
        clipped = ratio.clamp(1 - self.clip, 1 + self.clip)
        gain = torch.minimum(ratio * advantages, clipped * advantages)
        gap = fixed - new
        return self.strength * (torch.exp(gap) - gap - 1) - gain


def _log_probability(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    wide = logits.float()
    return wide.gather(-1, tokens[:, None])[:, 0] - torch.logsumexp(wide, dim=-1)


def get_inputs():
    logits = 2.0 * torch.randn(TOKENS, VOCABULARY)
    reference = logits + 0.2 * torch.randn(TOKENS, VOCABULARY)
    tokens = torch.randint(0, VOCABULARY, (TOKENS,))
    old = _log_probability(logits, tokens) + 0.2 * torch.randn(TOKENS)
    return [logits.bfloat16(), reference.bfloat16(), tokens, old, torch.randn(TOKENS)]


def get_init_inputs():
    return [CLIP, STRENGTH]
