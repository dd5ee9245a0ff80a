"""Acceptance of drafted tokens, and the distribution to sample from at the first one refused.

Drafted tokens are kept while a uniform number is below target / draft; only the refused position's residual
is needed, so a kernel reads one row of each sequence while plain operators form the residual of all.
"""

import torch
from torch import nn

BATCH = 64
DRAFTED = 5
VOCABULARY = 65536

SHAPES = {
    "small": {"BATCH": 8, "DRAFTED": 3, "VOCABULARY": 1024},
    "odd": {"BATCH": 7, "DRAFTED": 4, "VOCABULARY": 1003},
}


class Model(nn.Module):
    def forward(
        self, target: torch.Tensor, draft: torch.Tensor, tokens: torch.Tensor, uniform: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Target is [batch, drafted + 1, vocabulary], draft one shorter; both are probabilities."""
        ahead = target[:, :-1].gather(-1, tokens[..., None])[..., 0]
        proposed = draft.gather(-1, tokens[..., None])[..., 0]
        accepted = (uniform * proposed < ahead).long().cumprod(dim=-1).sum(dim=-1)
        padded = torch.cat([draft, torch.zeros_like(draft[:, :1])], dim=1)
        residual = (target - padded).clamp(min=0.0)
        residual = residual / residual.sum(dim=-1, keepdim=True)
        index = accepted[:, None, None].expand(-1, 1, target.shape[-1])
        return accepted, residual.gather(1, index)[:, 0]


def get_inputs():
    target = torch.softmax(2.0 * torch.randn(BATCH, DRAFTED + 1, VOCABULARY), dim=-1)
    draft = torch.softmax(2.0 * torch.randn(BATCH, DRAFTED, VOCABULARY), dim=-1)
    tokens = torch.randint(0, VOCABULARY, (BATCH, DRAFTED))
    return [target, draft, tokens, torch.rand(BATCH, DRAFTED)]


def get_init_inputs():
    return []
