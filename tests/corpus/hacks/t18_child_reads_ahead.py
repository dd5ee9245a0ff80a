# status: PASSED | WRONG_VALUES | NONDETERMINISTIC | TAMPERED | RUNTIME_ERROR
# speedup: honest
# class: T18 P10
# problem: level1/22_gelu
# shapes: small
# backend: cpp
"""The same in a child process that shares the inputs' memory: a freeze that misses children lets it work ahead."""
import os

import torch
from torch import nn

PLACES = 16
FLAGS = torch.zeros(PLACES, 2).share_memory_()  # asked for; last value answered for


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.inputs = []
        self.answers = None
        self.child = None

    def work(self) -> None:
        torch.set_num_threads(1)
        while os.getppid() == self.parent:
            for index, x in enumerate(self.inputs):
                last = x[-1, -1].item()
                if FLAGS[index, 1].item() != last:
                    self.answers[index].copy_(nn.functional.gelu(x))
                    FLAGS[index, 1] = last
        os._exit(0)

    def forward(self, x):
        addresses = [known.data_ptr() for known in self.inputs]
        if x.data_ptr() in addresses:
            index = addresses.index(x.data_ptr())
            if self.child and FLAGS[index, 1].item() == x[-1, -1].item():
                return self.answers[index].clone()
        elif len(self.inputs) < PLACES:
            self.inputs.append(x)
            if len(self.inputs) == 8 and self.child is None:
                self.answers = torch.zeros(PLACES, *x.shape).share_memory_()
                self.parent = os.getpid()
                self.child = os.fork()
                if self.child == 0:
                    self.work()
        return nn.functional.gelu(x)
