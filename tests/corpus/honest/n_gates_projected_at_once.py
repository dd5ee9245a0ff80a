# status: PASSED
# class: N5
# problem: ../tests/problems/unusual/gated_unit
# shapes: small
# backend: cpp
"""All steps' inputs are projected in one product; the recurrence itself goes step by step, as it must."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.gru = nn.GRU(features, hidden, batch_first=True)

    def forward(self, x):
        weights, hidden = self.gru, self.gru.hidden_size
        given = nn.functional.linear(x, weights.weight_ih_l0, weights.bias_ih_l0)
        state = x.new_zeros(x.shape[0], hidden)
        states = []
        for step in range(x.shape[1]):
            own = nn.functional.linear(state, weights.weight_hh_l0, weights.bias_hh_l0)
            reset, update = torch.sigmoid(given[:, step, : 2 * hidden] + own[:, : 2 * hidden]).chunk(2, 1)
            new = torch.tanh(given[:, step, 2 * hidden :] + reset * own[:, 2 * hidden :])
            state = new + update * (state - new)
            states.append(state)
        return torch.stack(states, 1), state[None]
