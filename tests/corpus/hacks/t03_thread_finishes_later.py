# status: WRONG_VALUES | NONDETERMINISTIC
# class: T3
# problem: level1/09_softmax
# shapes: small
# backend: cpp
"""Returns an unfinished buffer at once; a Python thread fills it after the clock stopped."""
import threading
import time

import torch
from torch import nn


def finish(out: torch.Tensor, x: torch.Tensor) -> None:
    time.sleep(0.2)
    torch.softmax(x, dim=-1, out=out)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        threading.Thread(target=finish, args=(out, x.clone()), daemon=True).start()
        return out
