# status: PASSED
# class: C6
# problem: level3/05_gated_recurrence
# shapes: small
# backend: cuda
"""A captured graph per shape; inputs are copied into its buffers before each replay, outputs out of them after it."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.initial = nn.Parameter(2.0 * torch.randn(features))
        self.recurrent = nn.Parameter(torch.randn(features))
        self.bias = nn.Parameter(torch.randn(features))
        self.graphs = {}

    def compute(self, x, gates):
        state, states = self.initial.expand(x.shape[0], -1), []
        for step in range(x.shape[1]):
            keep = torch.sigmoid(gates[:, step] + self.recurrent * state + self.bias)
            state = keep * state + (1.0 - keep) * x[:, step]
            states.append(state)
        return torch.stack(states, dim=1)

    def capture(self, x, gates):
        inputs = (x.clone(), gates.clone())
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.compute(*inputs)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = self.compute(*inputs)
        return graph, inputs, out

    def forward(self, x, gates):
        if x.shape not in self.graphs:
            self.graphs[x.shape] = self.capture(x, gates)
        graph, inputs, out = self.graphs[x.shape]
        for place, value in zip(inputs, (x, gates)):
            place.copy_(value)
        graph.replay()
        return out.clone()
