"""The only positional constructor argument is a dictionary: a list of one element, Model({...})."""

import torch
from torch import nn

BATCH = 1024
SETTINGS = {"features": 256, "gain": 1.5}


class Model(nn.Module):
    def __init__(self, settings: dict[str, float]):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(int(settings["features"])))
        self.gain = settings["gain"]

    def forward(self, x):
        return torch.tanh(x * self.weight) * self.gain


def get_inputs():
    return [torch.randn(BATCH, SETTINGS["features"])]


def get_init_inputs():
    return [SETTINGS]
