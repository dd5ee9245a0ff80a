# status: TAMPERED
# class: P19 P3
# problem: level1/13_row_mean
# shapes: odd
# backend: cpp
"""Claims times that are no numbers: NaN, infinity, an integer of a thousand digits, a list nested a lot."""
import json
import random

import torch
from torch import nn

genuine = json.dumps


def dumps(message, *args, **kwargs):
    text = genuine(message, *args, **kwargs)
    if isinstance(message, dict) and "inner_ms" in message:
        value = random.choice(["NaN", "-Infinity", "9" * 1000, "[" * 400 + "]" * 400, "1e999"])
        text = text.replace(genuine(message["inner_ms"]), value)
    return text


json.dumps = dumps


class ModelNew(nn.Module):
    def forward(self, x):
        return x.mean(dim=-1)
