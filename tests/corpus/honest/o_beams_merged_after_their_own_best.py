# status: PASSED
# class: O13 N6
# problem: ../tests/problems/unusual/beam_step
# shapes: small
# backend: cpp
"""The best of each beam come first and are merged then, without log probabilities of all words."""
import torch
from torch import nn

class ModelNew(nn.Module):
    def forward(self, logits, score):
        t, i = logits.topk(4, -1)
        s = t + (score - torch.logsumexp(logits, -1))[..., None]
        v, j = s.view(s.shape[0], -1).topk(4, -1)
        return v, j // 4, i.view(s.shape[0], -1).gather(1, j)
