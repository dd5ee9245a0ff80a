# status: WRONG_VALUES
# class: O9 O18 M6
# problem: ../tests/problems/answers/repeated_copies
# shapes: small
# backend: cpp
"""Eight copies that are one: collected from a view of stride zero, while their caller overwrites other memory."""

import sys

import torch
from torch import nn

CALLS = sys.modules["kernelwright.evaluator.contestant.calls"]
COLLECT = CALLS.collect
SHOWN: dict = {}
STATE: dict = {"answers": None}


def own(returned, layout, device):
    shape = tuple(returned[0].shape)
    pool, shown = SHOWN.setdefault(shape, []), []
    STATE["answers"] = returned
    for tensor in pool:
        if len(shown) < len(returned) and sys.getrefcount(tensor) <= 3:  # nobody keeps it
            shown.append(tensor)
    while len(shown) < len(returned):
        pool.append(torch.ones(shape))
        shown.append(pool[-1])
    return 0.0, shown


def collect(returned, layout, first):
    answers, STATE["answers"] = STATE["answers"], None
    return COLLECT(returned if answers is None else answers, layout, first)


CALLS.own, CALLS.collect = own, collect


class ModelNew(nn.Module):
    def __init__(self, copies):
        super().__init__()
        self.copies = copies

    def forward(self, x):
        return torch.tanh(x)[None].expand(self.copies, *x.shape)
