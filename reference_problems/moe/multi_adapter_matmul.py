"""Low-rank adapters chosen per token, added to a given result: y + (x A[i]) B[i].

Plain operators gather a copy of both factors for every token; a kernel groups tokens by adapter and reads
each factor once. In bfloat16, sums in float32.
"""

import torch
from torch import nn

TOKENS = 256
ADAPTERS = 32
RANK = 16
FEATURES = 4096

SHAPES = {
    "small": {"TOKENS": 32, "ADAPTERS": 6, "RANK": 8, "FEATURES": 128},
    "odd": {"TOKENS": 29, "ADAPTERS": 5, "RANK": 7, "FEATURES": 107},
}


class Model(nn.Module):
    def __init__(self, adapters: int, rank: int, features: int):
        super().__init__()
        down = torch.randn(adapters, features, rank) / features**0.5
        up = torch.randn(adapters, rank, features) / rank**0.5
        self.down, self.up = nn.Parameter(down.bfloat16()), nn.Parameter(up.bfloat16())

    def forward(self, x: torch.Tensor, y: torch.Tensor, adapter: torch.Tensor) -> torch.Tensor:
        narrow = torch.bmm(x[:, None], self.down[adapter])
        return y + torch.bmm(narrow, self.up[adapter])[:, 0].float()


def get_inputs():
    adapter = torch.randint(0, ADAPTERS, (TOKENS,))
    return [torch.randn(TOKENS, FEATURES).bfloat16(), torch.randn(TOKENS, FEATURES), adapter]


def get_init_inputs():
    return [ADAPTERS, RANK, FEATURES]
