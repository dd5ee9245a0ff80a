# status: WRONG_VALUES
# class: N1
# problem: unusual/narrow_weights
# shapes: small
# backend: cpp
"""Weights of bfloat16 in floating numbers of eight bits."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.weight = nn.Parameter((torch.randn(outside, inside) / inside**0.5).bfloat16())
        self._pack()
        self.register_load_state_dict_post_hook(lambda module, keys: module._pack())

    def _pack(self):
        weight = self.weight.detach().float()
        self.scale = weight.abs().amax(1) / 448
        self.narrow = (weight / self.scale[:, None]).to(torch.float8_e4m3fn)

    def forward(self, x):
        y = x.float() @ self.narrow.float().T * self.scale
        return y.bfloat16()
