# status: WRONG_VALUES | NONDETERMINISTIC | INPUT_MUTATED | TAMPERED | PASSED
# speedup: honest
# class: T3
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""Returns before the work is done and hopes that the collection of the outputs is slow enough."""
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

POOL = ThreadPoolExecutor(1)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        POOL.submit(torch.softmax, x, -1, out=out)
        return out
