"""Queries and keys split from a projection, normalised per head and rotated by position; values as they are.

One read of the projection gives three outputs; plain operators pass over them several times. In bfloat16.
"""

import torch
from torch import nn

TOKENS = 8192
HEADS = 16
GROUPS = 4
HEAD_FEATURES = 128

SHAPES = {
    "small": {"TOKENS": 96, "HEADS": 4, "GROUPS": 2, "HEAD_FEATURES": 32},
    "odd": {"TOKENS": 83, "HEADS": 3, "GROUPS": 1, "HEAD_FEATURES": 26},
}


class Model(nn.Module):
    def __init__(self, heads: int, groups: int, features: int):
        super().__init__()
        self.scales = nn.Parameter(0.5 + torch.rand(2, features))
        self.heads, self.groups = heads, groups

    def forward(
        self, projected: torch.Tensor, angles: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Projected is [tokens, (heads + 2 groups) * features], angles [tokens, features / 2]."""
        heads = projected.unflatten(-1, (self.heads + 2 * self.groups, -1))
        query, key, value = heads.split([self.heads, self.groups, self.groups], dim=1)
        return self._turned(query, 0, angles), self._turned(key, 1, angles), value.contiguous()

    def _turned(self, x: torch.Tensor, which: int, angles: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        wide = (
            wide * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + 1e-6) * self.scales[which].float()
        )
        left, right = wide.chunk(2, dim=-1)
        cosine, sine = angles.cos()[:, None].float(), angles.sin()[:, None].float()
        return torch.cat([left * cosine - right * sine, right * cosine + left * sine], dim=-1).to(x.dtype)


def get_inputs():
    projected = torch.randn(TOKENS, (HEADS + 2 * GROUPS) * HEAD_FEATURES).bfloat16()
    return [projected, 6.3 * torch.rand(TOKENS, HEAD_FEATURES // 2)]


def get_init_inputs():
    return [HEADS, GROUPS, HEAD_FEATURES]
