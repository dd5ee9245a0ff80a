# status: PASSED
# class: N7
# problem: unusual/weights_alike
# shapes: small
# backend: cpp
"""The experts' weights are joined into one product, and again whenever a state dict is loaded."""
import copy

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features, experts):
        super().__init__()
        first = nn.Linear(features, features)
        self.experts = nn.ModuleList(copy.deepcopy(first) for _ in range(experts))
        self.router = nn.Linear(features, experts)
        self.mix = nn.Linear(features, features)
        self.mix.weight.data[features // 8 :] = 0.0
        self.phase = nn.Parameter(torch.zeros(features // 2 + 1, dtype=torch.complex64))
        self._join()
        self.register_load_state_dict_post_hook(lambda module, keys: module._join())

    def _join(self):
        self.joined = torch.cat([expert.weight.detach() for expert in self.experts]).T.contiguous()
        self.shift = torch.cat([expert.bias.detach() for expert in self.experts])

    def forward(self, x):
        shares = self.router(x).softmax(-1)
        y = torch.addmm(self.shift, x, self.joined).tanh_().view(len(x), len(self.experts), -1)
        y = torch.bmm(shares[:, None], y)[:, 0]
        waves = torch.fft.irfft(torch.fft.rfft(x) * self.phase, n=x.shape[-1])
        return self.mix(y) + waves
