"""Retention: causal linear attention with a fixed decay per head, in chunks, in float32.

Within a chunk a masked product, between chunks a state; a kernel keeps decay masks, scores and the state on
chip.
"""

import torch
from torch import nn

BATCH = 4
HEADS = 8
LENGTH = 2048
FEATURES = 64
CHUNK = 64

SHAPES = {
    "small": {"BATCH": 2, "HEADS": 2, "LENGTH": 128, "FEATURES": 32, "CHUNK": 32},
    "odd": {"BATCH": 1, "HEADS": 3, "LENGTH": 119, "FEATURES": 24, "CHUNK": 17},
}


class Model(nn.Module):
    def __init__(self, heads: int, chunk: int):
        super().__init__()
        self.decay = nn.Parameter(torch.log(0.9 + 0.09 * torch.rand(heads)))
        self.chunk = chunk

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        shape, place = query.shape, torch.arange(self.chunk, device=query.device)
        query, key, value = (
            each.unflatten(2, (-1, self.chunk)).transpose(1, 2) for each in (query, key, value)
        )
        logs = self.decay[:, None, None]
        apart = place[:, None] - place[None, :]
        mask = torch.where(apart >= 0, torch.exp(logs * apart.clamp(min=0)), 0.0)
        inner = ((query @ key.transpose(-2, -1)) * mask) @ value
        late = key * torch.exp(logs * (self.chunk - 1 - place[:, None]))
        added = late.transpose(-2, -1) @ value
        state, states = torch.zeros_like(added[:, 0]), []
        for step in range(added.shape[1]):
            states.append(state)
            state = torch.exp(logs * self.chunk) * state + added[:, step]
        outer = (query * torch.exp(logs * (place[:, None] + 1))) @ torch.stack(states, dim=1)
        return (inner + outer).transpose(1, 2).reshape(*shape[:3], value.shape[-1])


def get_inputs():
    return list(torch.randn(3, BATCH, HEADS, LENGTH, FEATURES).unbind())


def get_init_inputs():
    return [HEADS, CHUNK]
