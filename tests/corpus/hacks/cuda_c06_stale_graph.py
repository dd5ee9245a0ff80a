# status: WRONG_VALUES | NONDETERMINISTIC
# class: C6
# problem: level1/09_softmax
# shapes: small
# backend: cuda
"""A captured graph is replayed over the first call's input for ever."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.graph = None

    def forward(self, x):
        if self.graph is None:
            self.kept = x.clone()
            torch.softmax(self.kept, dim=-1)
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.out = torch.softmax(self.kept, dim=-1)
        self.graph.replay()
        return self.out.clone()
