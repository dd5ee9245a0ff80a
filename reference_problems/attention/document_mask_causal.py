"""Causal attention over packed documents: a query sees earlier tokens of its own document only, in bfloat16.

Documents have random lengths, drawn anew for each call; a kernel skips every tile between documents, the
masked form none.
"""

import math

import torch
from torch import nn

HEADS = 16
LENGTH = 4096
DOCUMENTS = 8
HEAD_FEATURES = 128

SHAPES = {
    "small": {"HEADS": 2, "LENGTH": 192, "DOCUMENTS": 4, "HEAD_FEATURES": 64},
    "odd": {"HEADS": 3, "LENGTH": 179, "DOCUMENTS": 5, "HEAD_FEATURES": 40},
}


class Model(nn.Module):
    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, document: torch.Tensor
    ) -> torch.Tensor:
        length = query.shape[-2]
        scores = (query @ key.transpose(-2, -1)).float() / math.sqrt(query.shape[-1])
        future = torch.ones(length, length, dtype=torch.bool, device=query.device).triu(diagonal=1)
        hidden = future | (document[:, None] != document[None, :])
        weights = torch.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1)
        return weights.to(value.dtype) @ value


def get_inputs():
    """`document` [LENGTH] numbers each token's document, ascending."""
    query = 2.0 * torch.randn(HEADS, LENGTH, HEAD_FEATURES)
    key, value = torch.randn(2, HEADS, LENGTH, HEAD_FEATURES).unbind()
    starts = torch.randperm(LENGTH - 1)[: DOCUMENTS - 1] + 1
    document = torch.zeros(LENGTH, dtype=torch.int64).index_fill_(0, starts, 1).cumsum(0)
    return [query.bfloat16(), key.bfloat16(), value.bfloat16(), document]


def get_init_inputs():
    return []
