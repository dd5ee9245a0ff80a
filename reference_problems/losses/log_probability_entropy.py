"""Log-probability of the chosen token and entropy of each row of logits, for policy gradients.

One online pass gives both; plain operators store the log-softmax and its product. In bfloat16, results in
float32.
"""

import torch
from torch import nn

TOKENS = 4096
VOCABULARY = 65536

SHAPES = {"small": {"TOKENS": 96, "VOCABULARY": 2048}, "odd": {"TOKENS": 83, "VOCABULARY": 1511}}


class Model(nn.Module):
    def forward(self, logits: torch.Tensor, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logs = torch.log_softmax(logits.float(), dim=-1)
        entropy = -(logs.exp() * logs).sum(dim=-1)
        return logs.gather(-1, tokens[:, None])[:, 0], entropy


def get_inputs():
    return [3.0 * torch.randn(TOKENS, VOCABULARY).bfloat16(), torch.randint(0, VOCABULARY, (TOKENS,))]


def get_init_inputs():
    return []
