"""Pre-norm transformer block with causal attention: matmuls with many memory-bound kernels between them."""

import math

import torch
from torch import nn

BATCH = 4
LENGTH = 1024
FEATURES = 768
HEADS = 12
HIDDEN = 3072
EPSILON = 1e-6

SHAPES = {
    "small": {"BATCH": 1, "LENGTH": 128, "FEATURES": 160, "HEADS": 4, "HIDDEN": 512},
    "odd": {"BATCH": 1, "LENGTH": 101, "FEATURES": 141, "HEADS": 3, "HIDDEN": 421},
}


def random_weight(rows: int, columns: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(rows, columns) / math.sqrt(columns))


def rms_norm(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + epsilon) * weight


class Model(nn.Module):
    def __init__(self, features: int, heads: int, hidden: int, epsilon: float):
        super().__init__()
        self.heads = heads
        self.epsilon = epsilon
        self.attention_norm = nn.Parameter(1.0 + 0.3 * torch.randn(features))
        self.query_key_value = random_weight(3 * features, features)
        self.projection = random_weight(features, features)
        self.mlp_norm = nn.Parameter(1.0 + 0.3 * torch.randn(features))
        self.up = random_weight(hidden, features)
        self.up_bias = nn.Parameter(0.5 * torch.randn(hidden))
        self.down = random_weight(features, hidden)
        self.down_bias = nn.Parameter(0.5 * torch.randn(features))

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, features = x.shape
        packed = nn.functional.linear(x, self.query_key_value)
        query, key, value = packed.view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-2, -1) / math.sqrt(features // self.heads)
        future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(diagonal=1)
        mixed = torch.softmax(scores.masked_fill(future, float("-inf")), dim=-1) @ value
        return nn.functional.linear(mixed.transpose(1, 2).reshape(batch, length, features), self.projection)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attend(rms_norm(x, self.attention_norm, self.epsilon))
        y = nn.functional.linear(rms_norm(x, self.mlp_norm, self.epsilon), self.up, self.up_bias)
        return x + nn.functional.linear(nn.functional.gelu(y), self.down, self.down_bias)


def get_inputs():
    return [torch.randn(BATCH, LENGTH, FEATURES)]


def get_init_inputs():
    return [FEATURES, HEADS, HIDDEN, EPSILON]
