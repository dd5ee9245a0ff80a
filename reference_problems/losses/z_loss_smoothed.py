"""Cross-entropy with label smoothing, a penalty on the squared log-normaliser, and ignored positions.

Maximum, exponential sum and plain sum of a row come from one pass; plain operators read the logits several
times. In bfloat16, with sums in float32.
"""

import torch
from torch import nn

TOKENS = 4096
VOCABULARY = 65536
SMOOTHING = 0.1
PENALTY = 1e-3
IGNORED = -100

SHAPES = {"small": {"TOKENS": 96, "VOCABULARY": 2048}, "odd": {"TOKENS": 83, "VOCABULARY": 1511}}


class Model(nn.Module):
    def __init__(self, smoothing: float, penalty: float):
        super().__init__()
        self.smoothing, self.penalty = smoothing, penalty

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Loss of each token [tokens]; zero where the label is ignored."""
        wide = logits.float()
        normalizer = torch.logsumexp(wide, dim=-1)
        counted = labels != IGNORED
        own = wide.gather(-1, labels.clamp(min=0)[:, None])[:, 0]
        smooth = normalizer - wide.mean(dim=-1)
        loss = (1 - self.smoothing) * (normalizer - own) + self.smoothing * smooth
        return torch.where(counted, loss + self.penalty * normalizer.square(), 0.0)


def get_inputs():
    """An eighth of the labels are ignored."""
    labels = torch.randint(0, VOCABULARY, (TOKENS,))
    ignored = torch.rand(TOKENS) < 0.125
    return [3.0 * torch.randn(TOKENS, VOCABULARY).bfloat16(), labels.masked_fill(ignored, IGNORED)]


def get_init_inputs():
    return [SMOOTHING, PENALTY]
