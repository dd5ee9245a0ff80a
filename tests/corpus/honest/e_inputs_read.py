# status: PASSED
# class: E5
# problem: unusual/constant_inputs
# shapes: small
# backend: cpp
"""Reads every input, whatever it holds."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, query, keys, visible, lengths, places, state):
        hidden = ~visible | (torch.arange(keys.shape[1], device=keys.device) >= lengths[:, None])
        scores = torch.baddbmm(torch.zeros((), device=keys.device), query, keys.mT, alpha=query.shape[-1] ** -0.5)
        weights = scores.masked_fill_(hidden[:, None], -1e9).softmax(-1)
        out = (weights @ keys)[:, places]
        return out.addcmul_(torch.tanh(state @ keys.mean(1).unsqueeze(-1)), query)
