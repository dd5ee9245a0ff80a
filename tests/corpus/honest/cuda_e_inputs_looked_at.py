# status: PASSED
# class: E5 D3
# problem: unusual/constant_inputs
# shapes: small
# backend: cuda
"""Skips the mask, the gather and the state where it has looked that they change nothing."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, query, keys, visible, lengths, places, state):
        hidden = ~visible | (torch.arange(keys.shape[1], device=keys.device) >= lengths[:, None])
        scores = torch.baddbmm(torch.zeros((), device=keys.device), query, keys.mT, alpha=query.shape[-1] ** -0.5)
        if hidden.any():
            scores.masked_fill_(hidden[:, None], -1e9)
        weights = scores.softmax(-1)
        out = weights @ keys
        if not torch.equal(places, torch.arange(len(places), device=places.device)):
            out = out[:, places]
        if not state.any():
            return out
        return out.addcmul_(torch.tanh(state @ keys.mean(1).unsqueeze(-1)), query)
